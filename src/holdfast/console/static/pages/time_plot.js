/**
 * The plot: a number, or a JSON path, of up to eight topics over the chosen range. Each column of pixels has min, max and last.
 *
 * The band goes from min to max, the line through the last values. Lines differ by dash, not by colour alone.
 */
import uPlot from "../vendor/uplot.js";
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../parts/html.js";
import { number, short, time, timeOfDay, timeZone, toBytes, toText, visible } from "../parts/format.js";
import { Name, Problem } from "../parts/text.js";
import { textOf } from "../parts/payload_bytes.js";
import { theme } from "../parts/theme.js";
import { ticks } from "../parts/strip_scale.js";
import { BESIDE } from "./time_messages.js";
import { MAX_PLOTS } from "./time_view.js";

/** @typedef {[number, number, number, number, number]} Cell at_us, min, max, last, count */
/** @typedef {{topic: string | import("../parts/payload_bytes.js").Wire, columns: Cell[], not_numbers: number}} Series */
/** @typedef {import("../parts/strip_scale.js").Range} Range */

const DASHES = [[], [6, 3], [2, 3], [9, 3, 2, 3]];
const COLOURS = ["--series-1", "--series-2", "--series-3", "--series-4"];
const HEIGHT_PX = 220;
/** Topics of the state that are looked at for suggestions. */
const LOOKED_AT = 200;

/** The look of a line, by its number. @param {number} i */
function look(i) {
  return { colour: COLOURS[i % COLOURS.length], dash: DASHES[(i + Math.floor(i / COLOURS.length)) % DASHES.length] };
}

/** @param {string} name */
function css(name) {
  return getComputedStyle(document.querySelector(".time-page") ?? document.documentElement).getPropertyValue(name).trim() || "#777";
}

/**
 * The columns of all topics on one axis: [times in s, then min, max, last of each].
 * @param {Series[]} series
 * @returns {(number | null)[][]}
 */
export function tableOf(series) {
  const times = [...new Set(series.flatMap((one) => one.columns.map((cell) => cell[0])))].sort((a, b) => a - b);
  const index = new Map(times.map((at, i) => [at, i]));
  const table = [times.map((at) => at / 1e6)];
  for (const one of series) {
    const lists = [1, 2, 3].map(() => /** @type {(number | null)[]} */ (new Array(times.length).fill(null)));
    for (const cell of one.columns) {
      const i = /** @type {number} */ (index.get(cell[0]));
      lists[0][i] = cell[1];
      lists[1][i] = cell[2];
      lists[2][i] = cell[3];
    }
    table.push(.../** @type {any} */ (lists));
  }
  return table;
}

/**
 * JSON paths of a payload that hold numbers, for the field that asks for one.
 * @param {import("../parts/payload_bytes.js").Wire | undefined} payload
 */
export function numberPaths(payload) {
  /** @type {string[]} */
  const found = [];
  const walk = (/** @type {unknown} */ value, /** @type {string} */ path, /** @type {number} */ depth) => {
    if (found.length >= 50 || depth > 6) return;
    if (typeof value === "number") found.push(path);
    else if (Array.isArray(value)) value.slice(0, 10).forEach((item, i) => walk(item, `${path}[${i}]`, depth + 1));
    else if (value && typeof value === "object") {
      for (const [key, item] of Object.entries(value).slice(0, 50)) if (/^[A-Za-z_][\w-]*$/.test(key)) walk(item, `${path}.${key}`, depth + 1);
    }
  };
  try {
    walk(JSON.parse(textOf(toBytes(payload)) ?? ""), "$", 0);
  } catch {
    return [];
  }
  return found;
}

/**
 * Topics whose newest payload is a number or has one, and that are not drawn yet.
 * @param {any[]} known
 * @param {string[]} drawn
 */
export function numericTopics(known, drawn) {
  const looked = known.slice(0, LOOKED_AT).map((one) => ({ topic: toText(one.topic), path: numberPaths(one.payload)[0] }));
  const found = looked.filter((one) => one.path !== undefined && !drawn.includes(one.topic));
  // A plain number is drawn without a path, so it comes first.
  const plain = found.filter((one) => one.path === "$");
  return (plain.length ? plain : found).slice(0, 6).map((one) => one.topic);
}

/**
 * @param {object} props
 * @param {string[]} props.topics
 * @param {string} props.path
 * @param {string[]} props.paths to choose from
 * @param {string[]} props.suggested topics that have a number
 * @param {Range} props.range
 * @param {number} props.at
 * @param {{answer: any, error: any, busy: boolean}} props.plot
 * @param {(topic: string) => void} props.onTopic adds or takes out
 * @param {(path: string) => void} props.onPath
 * @param {(at_us: number) => void} props.onMoment
 */
export function PlotPanel({ topics, path, paths, suggested, range, at, plot, onTopic, onPath, onMoment }) {
  const [typed, setTyped] = useState("");
  const [asTable, setAsTable] = useState(false);
  const series = /** @type {Series[]} */ (plot.answer?.series ?? []);
  const drawn = series.some((one) => one.columns.length);
  const wrong = plot.error?.parameter === "path" ? plot.error.detail : null;
  const add = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (typed && !topics.includes(typed)) onTopic(typed);
    setTyped("");
  };
  return html`<section class="panel time-plot" aria-labelledby="plot-title" aria-busy=${plot.busy}>
    <div class="panel-head"><h2 id="plot-title">Plot</h2>
      <span class="soft small">min, max and last of each column</span><span class="spring"></span>
      ${drawn && html`<button type="button" class="button quiet" aria-expanded=${asTable} onClick=${() => setAsTable(!asTable)}>${asTable ? "Hide the table" : "As a table"}</button>`}</div>
    <div class="panel-body">
      <div class="fields plot-fields">
        <form class="field wide" onSubmit=${add}><label for="plot-topic">topic</label>
          <span class="joined"><input id="plot-topic" class="mono" value=${typed} autocomplete="off" spellcheck=${false} placeholder="plant/1/temp" disabled=${topics.length >= MAX_PLOTS}
            onInput=${(/** @type {any} */ event) => setTyped(event.target.value)} /><button type="submit" class="button" disabled=${!typed || topics.length >= MAX_PLOTS}>Add</button></span></form>
        <div class="field"><label for="plot-path">value</label>
          <input id="plot-path" class="mono" list="plot-paths" value=${path} autocomplete="off" spellcheck=${false} aria-invalid=${wrong ? "true" : undefined} aria-describedby=${wrong ? "plot-path-error" : "plot-path-hint"}
            onChange=${(/** @type {any} */ event) => onPath(event.target.value.trim() || "$")} />
          <datalist id="plot-paths">${["$", ...paths].map((one) => html`<option key=${one} value=${one}></option>`)}</datalist>
          ${wrong ? html`<p class="error" id="plot-path-error">${wrong}</p>` : html`<p class="soft small" id="plot-path-hint">$ is the payload as a number, $.t a field of JSON</p>`}</div>
      </div>
      ${suggested.length > 0 && topics.length < MAX_PLOTS && html`<p class="suggested"><span class="soft small">with numbers at A:</span>
        ${suggested.map((topic) => html`<button type="button" key=${topic} class="button quiet" onClick=${() => onTopic(topic)}><span aria-hidden="true">+</span><${Name} value=${topic} limit=${60} /></button>`)}</p>`}
      ${topics.length > 0 && html`<ul class="legend">${topics.map((topic, i) => html`<li key=${topic}><${Swatch} i=${i} /><${Name} value=${topic} />
        ${notNumbers(series.find((one) => toText(one.topic) === topic))}
        <button type="button" class="button bare icon small-icon" aria-label=${`Take ${visible(topic)} out of the plot`} onClick=${() => onTopic(topic)}>✕</button></li>`)}</ul>`}
      <${Problem} error=${plot.error} beside=${BESIDE} />
      ${topics.length === 0 ? html`<p class="empty">Choose a topic to plot it over the range.</p>`
        : drawn ? html`<${Curve} series=${series} range=${range} at=${at} onMoment=${onMoment} />`
          : html`<p class="empty">${plot.busy ? "asking …" : `no number at ${path} in this range`}</p>`}
      ${asTable && drawn && html`<${PlotTable} series=${series} />`}
    </div></section>`;
}

/** @param {Series | undefined} series */
function notNumbers(series) {
  return series && series.not_numbers > 0 ? html`<span class="soft">(${number(series.not_numbers)} were no number)</span>` : null;
}

/** @param {{i: number}} props */
function Swatch({ i }) {
  const { colour, dash } = look(i);
  return html`<svg viewBox="0 0 20 8" aria-hidden="true"><line x1="0" x2="20" y1="4" y2="4" stroke=${`var(${colour})`} stroke-width="2.5" stroke-dasharray=${dash.join(" ") || undefined} /></svg>`;
}

/** @param {{series: Series[], range: Range, at: number, onMoment: (at_us: number) => void}} props */
function Curve({ series, range, at, onMoment }) {
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const chart = useRef(/** @type {uPlot | null} */ (null));
  const [width, setWidth] = useState(0);
  const now = useRef({ at, onMoment });
  now.current = { at, onMoment };
  const table = useMemo(() => tableOf(series), [series]);
  const shape = JSON.stringify([series.map((one) => one.topic), theme.value, timeZone.value, range]);
  useLayoutEffect(() => {
    const element = /** @type {HTMLDivElement} */ (box.current);
    const sizes = new ResizeObserver(() => setWidth(element.clientWidth));
    sizes.observe(element);
    setWidth(element.clientWidth);
    return () => sizes.disconnect();
  }, []);
  useEffect(() => {
    if (!width) return undefined;
    const made = new uPlot(options(series, range, width, now), table, /** @type {HTMLElement} */ (box.current));
    made.over.addEventListener("click", (/** @type {MouseEvent} */ event) => now.current.onMoment(Math.round(made.posToVal(event.offsetX, "x") * 1e6)));
    chart.current = made;
    return () => {
      made.destroy();
      chart.current = null;
    };
  }, [shape, width, table]);
  useEffect(() => chart.current?.redraw(), [at]);
  return html`<div class="plot-box" ref=${box} aria-hidden="true"></div>`;
}

/**
 * @param {Series[]} series
 * @param {Range} range
 * @param {number} width
 * @param {{current: {at: number}}} now
 */
function options(series, range, width, now) {
  const ink = css("--ink-soft");
  const grid = { stroke: css("--line"), width: 1 };
  /** @type {any[]} */
  const lines = [{}];
  /** @type {any[]} */
  const bands = [];
  series.forEach((_, i) => {
    const { colour, dash } = look(i);
    const stroke = css(colour);
    const edge = { stroke: "transparent", width: 0, points: { show: false }, spanGaps: true };
    lines.push({ ...edge }, { ...edge }, { stroke, width: 1.75, dash, spanGaps: true, points: { show: false } });
    bands.push({ series: [i * 3 + 2, i * 3 + 1], fill: `color-mix(in srgb, ${stroke} 18%, transparent)` });
  });
  const view = { from: range.from, to: range.to };
  return {
    width, height: HEIGHT_PX, series: lines, bands, padding: [8, 24, 0, 0],
    legend: { show: false }, cursor: { y: false, drag: { x: false, y: false } },
    scales: { x: { time: false, range: () => [range.from / 1e6, range.to / 1e6] } },
    axes: [
      { stroke: ink, grid, ticks: grid, font: "11px sans-serif", splits: () => ticks(view, width).map((tick) => tick.at_us / 1e6),
        values: (/** @type {any} */ _, /** @type {number[]} */ splits) => splits.map((at) => ticks(view, width).find((tick) => tick.at_us / 1e6 === at)?.label ?? timeOfDay(at * 1e6)) },
      { stroke: ink, grid, ticks: grid, font: "11px sans-serif", size: 56, values: (/** @type {any} */ _, /** @type {number[]} */ values) => values.map((value) => short(value)) },
    ],
    hooks: { draw: [(/** @type {uPlot} */ made) => drawMoment(made, now.current.at)] },
  };
}

/** A line at A. @param {uPlot} made @param {number} at */
function drawMoment(made, at) {
  const x = made.valToPos(at / 1e6, "x", true);
  if (x < made.bbox.left || x > made.bbox.left + made.bbox.width) return;
  made.ctx.save();
  made.ctx.fillStyle = css("--moment-a");
  made.ctx.fillRect(x - 0.5, made.bbox.top, 1.5, made.bbox.height);
  made.ctx.restore();
}

/** @param {{series: Series[]}} props */
function PlotTable({ series }) {
  const rows = series.flatMap((one) => one.columns.map((cell) => ({ topic: toText(one.topic), cell }))).slice(0, 1000);
  return html`<div class="bucket-table" tabindex="0" role="region" aria-label="The plot as a table"><table><caption>The plot as a table${rows.length === 1000 ? ", the first 1,000 columns" : ""}.</caption>
    <thead><tr><th scope="col">from</th><th scope="col">topic</th><th scope="col">min</th><th scope="col">max</th><th scope="col">last</th><th scope="col">messages</th></tr></thead>
    <tbody>${rows.map(({ topic, cell }, i) => html`<tr key=${i}><td>${time(cell[0], "ms")}</td><td><${Name} value=${topic} /></td>
      ${[1, 2, 3, 4].map((column) => html`<td class="number">${number(cell[column])}</td>`)}</tr>`)}</tbody></table></div>`;
}
