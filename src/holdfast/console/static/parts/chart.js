/**
 * A chart over time, with its values as a table behind a button.
 *
 * Rules: a gap is drawn as a gap, hatched; lines differ by dash, not by colour alone; the axis begins at 0 unless told
 * otherwise; the pointer's values stand in the legend, which is text.
 */
import uPlot from "../vendor/uplot.js";
import { clock, number, short, time, timeZone, zoneName } from "./format.js";
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./html.js";
import { theme } from "./theme.js";
import { T } from "../texts.js";

/**
 * @typedef {object} Line
 * @property {string} label
 * @property {(number | null)[]} values
 * @property {(value: number | null | undefined) => string} [format]
 */

const DASHES = [[], [6, 3], [2, 3], [9, 3, 2, 3]];
const STEPS_S = [1, 5, 15, 30, 60, 300, 600, 900, 1800, 3600, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800];

/** @param {string} name */
function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/**
 * Ticks at round times of the zone that is shown.
 * @param {number} from_s
 * @param {number} to_s
 * @param {number} width
 */
function ticks(from_s, to_s, width) {
  const most = Math.max(2, Math.floor(width / 84));
  const step = STEPS_S.find((s) => (to_s - from_s) / s <= most) ?? 604_800;
  const shift = timeZone.value === "utc" ? 0 : new Date(from_s * 1000).getTimezoneOffset() * 60;
  const result = [];
  for (let at = Math.ceil((from_s - shift) / step) * step + shift; at <= to_s; at += step) result.push(at);
  return { result, step };
}

/**
 * @param {number} at_s
 * @param {number} step
 */
function tickText(at_s, step) {
  const c = clock(at_s * 1e6);
  const two = (/** @type {number} */ n) => String(n).padStart(2, "0");
  if (step >= 43_200 || (c.hour === 0 && c.minute === 0 && step >= 3600)) return `${two(c.month)}-${two(c.day)}`;
  return `${two(c.hour)}:${two(c.minute)}${step < 60 ? `:${two(c.second)}` : ""}`;
}

/**
 * Ranges in which no line has a value, as pairs of times. What lies before the first value of all is no gap.
 * @param {number[]} times
 * @param {(number | null)[][]} columns
 * @returns {[number, number][]}
 */
export function gaps(times, columns) {
  /** @type {[number, number][]} */
  const result = [];
  let from = -1;
  let begun = false;
  for (let i = 0; i <= times.length; i += 1) {
    const empty = i < times.length && columns.every((column) => column[i] === null || column[i] === undefined);
    if (!empty) begun = true;
    if (empty && begun && from < 0) from = i;
    if (!empty && from >= 0) {
      result.push([/** @type {number} */ (times[Math.max(0, from - 1)]), /** @type {number} */ (times[Math.min(i, times.length - 1)])]);
      from = -1;
    }
  }
  return result;
}

/**
 * The values without a neighbour, which no line would show.
 * @param {uPlot} u
 * @param {number} series
 */
function alone(u, series) {
  const values = u.data[series] ?? [];
  const known = (/** @type {number} */ i) => values[i] !== null && values[i] !== undefined;
  return values.map((_, i) => i).filter((i) => known(i) && !known(i - 1) && !known(i + 1));
}

/**
 * @param {CanvasRenderingContext2D} ctx
 * @param {number} left @param {number} top @param {number} width @param {number} height
 */
function hatch(ctx, left, top, width, height) {
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, top, width, height);
  ctx.clip();
  ctx.strokeStyle = colour("--hatch");
  ctx.lineWidth = devicePixelRatio;
  const step = 6 * devicePixelRatio;
  ctx.beginPath();
  for (let x = left - height; x < left + width; x += step) {
    ctx.moveTo(x, top + height);
    ctx.lineTo(x + height, top);
  }
  ctx.stroke();
  ctx.restore();
}

/**
 * @param {{label: string, times: number[], lines: Line[], format?: (value: number | null | undefined) => string, axis?: (value: number | null | undefined) => string,
 *   height?: number, from_s: number, to_s: number, sync?: string, fromZero?: boolean, reported?: (number | null)[]}} props times in seconds; reported: a series
 *   that has a value whenever the broker reported, if the lines may lack one also then
 */
export function Chart({ label, times, lines, reported, format = number, axis = short, height = 176, from_s, to_s, sync, fromZero = true }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const plot = useRef(/** @type {uPlot | null} */ (null));
  const [at, setAt] = useState(/** @type {number | null} */ (null));
  const [table, setTable] = useState(false);
  const zone = timeZone.value;
  const look = theme.value;
  const data = useMemo(() => [times, ...lines.map((line) => line.values)], [times, lines]);
  const bounds = useRef({ from_s, to_s });
  bounds.current = { from_s, to_s };
  const presence = useRef(/** @type {(number | null)[][]} */ ([]));
  presence.current = reported ? [reported] : lines.map((line) => line.values);

  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const ink = colour("--ink-soft");
    const grid = { stroke: colour("--line"), width: 1 };
    const font = "11px system-ui, sans-serif";
    const made = new uPlot({
      width: Math.max(element.clientWidth, 120),
      height,
      legend: { show: false },
      cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false }, ...(sync ? { sync: { key: sync } } : {}) },
      scales: {
        x: { time: true, range: () => [bounds.current.from_s, bounds.current.to_s] },
        y: { range: (/** @type {uPlot} */ _, /** @type {number} */ low, /** @type {number} */ high) => {
          if (low === null || high === null) return [0, 1];
          const bottom = fromZero ? Math.min(0, low) : low;
          const room = (high - bottom) * 0.08 || 1;
          return [fromZero ? bottom : bottom - room, high + room];
        } },
      },
      axes: [
        { stroke: ink, font, grid: { show: false }, ticks: { ...grid, size: 4 }, gap: 4, size: 28,
          splits: (/** @type {uPlot} */ u) => ticks(bounds.current.from_s, bounds.current.to_s, u.bbox.width / devicePixelRatio).result,
          values: (/** @type {uPlot} */ u, /** @type {number[]} */ splits) => {
            const { step } = ticks(bounds.current.from_s, bounds.current.to_s, u.bbox.width / devicePixelRatio);
            return splits.map((value) => tickText(value, step));
          } },
        { stroke: ink, font, grid, ticks: { show: false }, gap: 6, size: 52, space: 26,
          values: (/** @type {uPlot} */ _, /** @type {number[]} */ splits) => splits.map((value) => axis(value)) },
      ],
      series: [{}, ...lines.map((line, i) => ({
        label: line.label, stroke: colour(`--series-${i + 1}`), width: 1.5, dash: DASHES[i], points: { show: true, size: 3, filter: alone }, spanGaps: false,
        ...(i === 0 && lines.length === 1 ? { fill: `color-mix(in oklab, ${colour("--series-1")} 10%, transparent)` } : {}),
      }))],
      hooks: {
        drawClear: [(/** @type {uPlot} */ u) => {
          const [x] = u.data;
          for (const [from, to] of gaps(/** @type {number[]} */ (x), presence.current)) {
            const left = u.valToPos(from, "x", true);
            hatch(u.ctx, left, u.bbox.top, Math.max(2, u.valToPos(to, "x", true) - left), u.bbox.height);
          }
          const last = /** @type {number | undefined} */ (x?.at(-1));
          const edge = u.bbox.left + u.bbox.width;
          const behind = last === undefined ? edge : u.valToPos(last, "x", true);
          if (edge - behind > 3 * devicePixelRatio) hatch(u.ctx, behind, u.bbox.top, edge - behind, u.bbox.height);
        }],
        setCursor: [(/** @type {uPlot} */ u) => setAt(u.cursor.idx ?? null)],
      },
    }, data, element);
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: Math.max(element.clientWidth, 120), height }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [zone, look, lines.length, height]);

  useEffect(() => plot.current?.setData(data), [data, from_s, to_s]);

  const index = at !== null && at < times.length ? at : times.length - 1;
  const holes = gaps(times, presence.current).length;
  return html`<figure class="chart" aria-label=${label}>
    <div class="legend">
      ${lines.map((line, i) => html`<span key=${line.label}>${lines.length > 1 && html`<svg viewBox="0 0 20 8" aria-hidden="true"><line x1="0" y1="4" x2="20" y2="4"
        style=${{ stroke: `var(--series-${i + 1})`, strokeWidth: 2, strokeDasharray: (DASHES[i] ?? []).join(" ") }} /></svg>`}${line.label} <b>${(line.format ?? format)(line.values[index])}</b></span>`)}
      <span>${at !== null && times[index] !== undefined ? `${time(/** @type {number} */ (times[index]) * 1e6)} ${zoneName()}` : ""}</span>
      ${holes > 0 && html`<span class="tag" title=${T.chart.gapsTitle}>${T.chart.gaps(holes)}</span>`}
      <span class="spring"></span>
      <button type="button" class="button bare small" aria-expanded=${table} onClick=${() => setTable(!table)}>${table ? T.chart.hideTable : T.chart.showTable}<span class="visually-hidden"> (${label})</span></button>
    </div>
    <div class="chart-plot" ref=${box} aria-hidden="true" style=${{ height: `${height}px` }}></div>
    ${table && html`<${Values} label=${label} times=${times} lines=${lines} format=${format} />`}
  </figure>`;
}

/**
 * At most 60 rows: every so manieth value, and said so.
 * @param {{label: string, times: number[], lines: Line[], format: (value: number | null | undefined) => string}} props
 */
function Values({ label, times, lines, format }) {
  const every = Math.max(1, Math.ceil(times.length / 60));
  const rows = times.map((_, i) => i).filter((i) => i % every === 0 || i === times.length - 1).reverse();
  return html`<div class="chart-table" tabindex="0" role="region" aria-label=${label}>
    <table class="list"><caption class="visually-hidden">${label}</caption>
      <thead><tr><th scope="col">${T.chart.time} (${zoneName()})</th>${lines.map((line) => html`<th scope="col" class="number" key=${line.label}>${line.label}</th>`)}</tr></thead>
      <tbody>${rows.map((i) => html`<tr key=${i}><td class="nowrap">${time(/** @type {number} */ (times[i]) * 1e6)}</td>${lines.map((line) => html`<td class="number" key=${line.label}>${
        line.values[i] === null || line.values[i] === undefined ? T.chart.noValue : (line.format ?? format)(line.values[i])}</td>`)}</tr>`)}</tbody>
    </table></div>`;
}

/**
 * The last values as a line without axes. Says nothing that the number beside it does not.
 * @param {{values: (number | null)[]}} props
 */
export function Spark({ values }) {
  const known = values.filter((value) => value !== null);
  const high = Math.max(1e-9, ...known);
  const step = 100 / Math.max(1, values.length - 1);
  let path = "";
  let fill = "";
  let open = false;
  values.forEach((value, i) => {
    if (value === null || value === undefined) {
      if (open) fill += `L${((i - 1) * step).toFixed(2)} 24Z`;
      open = false;
      return;
    }
    const point = `${(i * step).toFixed(2)} ${(23 - (value / high) * 21).toFixed(2)}`;
    path += `${open ? "L" : "M"}${point}`;
    fill += open ? `L${point}` : `M${(i * step).toFixed(2)} 24L${point}`;
    open = true;
  });
  if (open) fill += `L100 24Z`;
  return html`<svg class="spark" viewBox="0 0 100 24" preserveAspectRatio="none" aria-hidden="true"><path class="fill" d=${fill} /><path d=${path} /></svg>`;
}
