/**
 * The overview: what the broker does now and did in the last hour, day or week.
 *
 * Charts of an hour move with each frame; those of a day and a week are asked for again when a step has passed.
 */
import { asCurl, get } from "../parts/api.js";
import { Chart, Spark } from "../parts/chart.js";
import { holdfast } from "../parts/command.js";
import { CopyAs } from "../parts/copy_as.js";
import { bytes, duration, number, short } from "../parts/format.js";
import { nodeState } from "../parts/frame.js";
import { classes, html, useEffect, useMemo, useState } from "../parts/html.js";
import { frameAge_s, frames, isOld, node, now_us, stats, tick } from "../parts/live.js";
import { quantile, recentQuantile, total } from "../parts/numbers.js";
import { useQuery } from "../parts/router.js";
import { Choice } from "../parts/text.js";
import { T } from "../texts.js";
import { Alarms, Drops, Listeners, Storage } from "./overview_panels.js";

const RANGES = /** @type {Record<string, {seconds: number, label: string}>} */ ({
  "1h": { seconds: 3600, label: T.chart.hour }, "24h": { seconds: 86_400, label: T.chart.day }, "7d": { seconds: 604_800, label: T.chart.week },
});

const atMost = (/** @type {number | null | undefined} */ value) => (value === null || value === undefined ? duration(value) : `≤ ${duration(value)}`);

/** @type {{title: string, lines: {name: string, label: string}[], format?: any, axis?: any, fromZero?: boolean}[]} */
const CHARTS = [
  { title: T.overview.rates, lines: [{ name: "messages_received_total", label: T.overview.received }, { name: "messages_sent_total", label: T.overview.sent }] },
  { title: T.overview.connections, lines: [{ name: "connections", label: T.overview.connections.toLowerCase() }] },
  { title: T.overview.commit, lines: [{ name: "commit_seconds_p99", label: "p99" }, { name: "commit_seconds_p50", label: "p50" }], format: atMost, axis: duration },
  { title: T.overview.dropsChart, lines: [{ name: "drops_total", label: T.overview.drops.toLowerCase() }] },
  { title: T.overview.behindChart, lines: [{ name: "clients_behind", label: T.overview.behind.toLowerCase() }] },
  { title: T.overview.disk, lines: [{ name: "disk_free_bytes", label: T.overview.free }], format: bytes, axis: bytes },
];
const NAMES = [...new Set([...CHARTS.flatMap((chart) => chart.lines.map((line) => line.name)), "loop_lag_seconds_p99"])];

const POINTS = 600;
/** Seconds between two frames that are no gap. */
const LATE_S = 3;

/** @typedef {{step_s: number, times: number[], columns: Record<string, (number | null)[]>, dropped?: number}} Series dropped: of the whole range, where columns are means */

/**
 * The value of a series in a frame, as the console keeps it.
 * @param {string} name
 * @returns {number | null}
 */
function valueNow(name) {
  const frame = frames.at(-1);
  if (!frame) return null;
  const share = name.endsWith("_p99") ? 0.99 : name.endsWith("_p50") ? 0.5 : null;
  if (share !== null) {
    const now = frame.histograms[name.slice(0, -4)];
    const then = frames.at(-2)?.histograms[name.slice(0, -4)];
    if (!now || !then) return null;
    const counts = now.counts.map((count, i) => count - (then.counts[i] ?? 0));
    return counts.every((count) => count >= 0) ? quantile(now.bounds_s, counts, share) : null;
  }
  if (name.endsWith("_total")) return frame.rates[name] ?? null;
  return total(frame, name);
}

/**
 * A long series with about as many values as a chart has pixels: means, of quantiles the largest that is known. A gap
 * stays a gap, however short it was; quantiles also lack a value where nothing happened.
 * @param {Series} series
 * @returns {Series}
 */
function coarser(series) {
  const size = Math.floor(series.times.length / POINTS);
  if (size < 2) return series;
  const columns = /** @type {Record<string, (number | null)[]>} */ ({});
  for (const [name, values] of Object.entries(series.columns)) {
    const most = /_p\d\d$/.test(name);
    columns[name] = [];
    for (let i = 0; i + size <= values.length; i += size) {
      let sum = 0;
      let largest = 0;
      let known = true;
      let some = false;
      for (let j = i; j < i + size; j += 1) {
        const value = values[j] ?? null;
        if (value === null) known = false;
        else {
          some = true;
          sum += value;
          largest = Math.max(largest, value);
        }
      }
      columns[name].push(most ? (some ? largest : null) : known ? sum / size : null);
    }
  }
  const length = Math.floor(series.times.length / size);
  return {
    step_s: series.step_s * size, times: Array.from({ length }, (_, i) => /** @type {number} */ (series.times[i * size])), columns,
    dropped: droppedOf(series) ?? undefined,
  };
}

/** How many messages were dropped in the time of a series. @param {Series | null} series */
function droppedOf(series) {
  if (!series) return null;
  return series.dropped ?? (series.columns["drops_total"] ?? []).reduce((/** @type {number} */ sum, value) => sum + (value ?? 0), 0) * series.step_s;
}

/**
 * The series with the newest frame. Frames come once a second at best: one that is a little late stands for the seconds
 * that it has skipped.
 * @param {Series} series
 * @param {number} at_s
 * @returns {Series}
 */
function withFrame(series, at_s) {
  if (at_s < (series.times.at(-1) ?? at_s)) return series;
  const times = series.times.slice();
  const columns = /** @type {Record<string, (number | null)[]>} */ ({});
  for (const name of NAMES) columns[name] = (series.columns[name] ?? []).slice();
  const isEmpty = (/** @type {number} */ i) => NAMES.every((name) => (columns[name]?.[i] ?? null) === null);
  for (let next = (times.at(-1) ?? at_s - 1) + 1; next <= at_s; next += 1) times.push(next);
  let first = times.length - 1;
  while (first > 0 && times.length - first < LATE_S && isEmpty(first - 1)) first -= 1;
  for (const name of NAMES) {
    const value = valueNow(name);
    for (let i = first; i < times.length; i += 1) /** @type {any} */ (columns[name])[i] = value;
  }
  const extra = times.findIndex((time) => time >= at_s - 3600);
  if (extra > 0) {
    times.splice(0, extra);
    for (const name of NAMES) columns[name]?.splice(0, extra);
  }
  return { step_s: 1, times, columns };
}

/**
 * What is asked for the charts. A little less than the range: the console keeps just so many of the finest steps.
 * @param {number} seconds
 * @param {number} to_us
 */
function seriesParams(seconds, to_us) {
  return { names: NAMES.join(","), from_us: to_us - Math.round(seconds * (1 - 1 / 360)) * 1e6, to_us };
}

/**
 * @param {number} seconds
 * @returns {{series: Series | null, error: any}}
 */
function useSeries(seconds) {
  const [series, setSeries] = useState(/** @type {Series | null} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const control = new AbortController();
    const to_us = Math.max(Math.floor(now_us()), stats.value?.as_of_us ?? 0);
    get("series", seriesParams(seconds, to_us), { signal: control.signal }).then((answer) => {
      const from_s = answer.from_us / 1e6;
      let length = Math.max(0, ...answer.values.map((/** @type {any[]} */ column) => column.length));
      // The frames of the last seconds are still on their way.
      const isEmpty = (/** @type {number} */ i) => answer.values.every((/** @type {any[]} */ column) => (column[i] ?? null) === null);
      for (let late = 0; late < LATE_S && length > 0 && isEmpty(length - 1); late += 1) length -= 1;
      const columns = /** @type {Record<string, (number | null)[]>} */ ({});
      answer.names.forEach((/** @type {string} */ name, /** @type {number} */ i) => { columns[name] = answer.values[i].slice(0, length); });
      const times = Array.from({ length }, (_, i) => from_s + i * answer.step_s);
      setSeries(seconds <= 3600 ? { step_s: answer.step_s, times, columns } : coarser({ step_s: answer.step_s, times, columns }));
      setError(null);
    }, (problem) => { if (!control.signal.aborted) setError(problem); });
    return () => control.abort();
  }, [seconds, turn]);

  // Longer ranges are asked for again, as often as they have a new value.
  const every_s = seconds > 86_400 ? 60 : (series?.step_s ?? 1) > 1 ? 10 : 0;
  useEffect(() => {
    if (every_s === 0) return undefined;
    const timer = setInterval(() => { if (!document.hidden) setTurn((n) => n + 1); }, every_s * 1000);
    return () => clearInterval(timer);
  }, [every_s]);

  // The last hour takes each frame as it comes. What lies between two frames that are further apart, the console knows:
  // the broker did not run, or this page was hidden.
  const at_us = stats.value?.as_of_us;
  useEffect(() => {
    if (!at_us || seconds > 3600 || !series || series.step_s !== 1) return;
    const at_s = Math.floor(at_us / 1e6);
    if (at_s - (series.times.at(-1) ?? at_s) > LATE_S) setTurn((n) => n + 1);
    else setSeries(withFrame(series, at_s));
  }, [at_us]);
  return { series, error };
}

/**
 * About 80 means of a series, from its first value on.
 * @param {(number | null)[] | undefined} values
 */
function thin(values) {
  const first = values?.findIndex((value) => value !== null) ?? -1;
  if (!values || first < 0) return [];
  return means(first > 0 ? values.slice(first) : values);
}

/** @param {(number | null)[]} values */
function means(values) {
  const size = Math.max(1, Math.ceil(values.length / 80));
  const result = [];
  for (let i = 0; i < values.length; i += size) {
    const part = values.slice(i, i + size).filter((value) => value !== null);
    result.push(part.length ? part.reduce((sum, value) => sum + /** @type {number} */ (value), 0) / part.length : null);
  }
  return result;
}

/**
 * @param {{label: string, value: string, unit?: string, sub?: any, to?: string, values?: (number | null)[], kind?: string}} props
 */
function Tile({ label, value, unit, sub, to, values, kind }) {
  const old = isOld.value;
  const inside = html`<span class="tile-label">${label}</span>
    <span class="tile-value">${value}${unit && html`<small>${unit}</small>`}</span>
    <${Spark} values=${values ?? []} />
    <span class="tile-sub">${old ? html`<span class="tag old">${T.state.ageTag(duration(Math.floor(frameAge_s.value ?? 0)))}</span>` : sub}</span>`;
  return to ? html`<a class=${classes("tile", kind, old && "is-old")} href=${to}>${inside}</a>` : html`<div class=${classes("tile", kind, old && "is-old")}>${inside}</div>`;
}

function Tiles(/** @type {{series: Series | null}} */ { series }) {
  const now = stats.value;
  const of = (/** @type {string} */ name) => thin(series?.columns[name]);
  const sparks = useMemo(() => Object.fromEntries(NAMES.map((name) => [name, of(name)])), [series]);
  const first = frames[0];
  const clients = now?.labelled["sessions"]?.["connected"] ?? total(now, "connections");
  const before = first ? first.labelled["sessions"]?.["connected"] ?? total(first, "connections") : null;
  const change = clients !== null && before !== null && first !== now ? clients - before : null;
  const behind = total(now, "clients_behind");
  const drops = now?.rates["drops_total"];
  return html`<div class="tiles">
    <${Tile} label=${T.overview.in} value=${number(rate(now?.rates["messages_received_total"]))} unit=${T.overview.perSecond} values=${sparks["messages_received_total"]} sub=${`${bytes(now?.rates["bytes_received_total"])}/s`} />
    <${Tile} label=${T.overview.out} value=${number(rate(now?.rates["messages_sent_total"]))} unit=${T.overview.perSecond} values=${sparks["messages_sent_total"]} sub=${`${bytes(now?.rates["bytes_sent_total"])}/s`} />
    <${Tile} label=${T.overview.clients} value=${number(clients)} to="/clients" values=${sparks["connections"]}
      sub=${change === null ? T.overview.offline(number(now?.labelled["sessions"]?.["offline"])) : T.overview.clientsSub(change > 0 ? `+${number(change)}` : change === 0 ? "±0" : number(change))} />
    <${Tile} label=${T.overview.behind} value=${number(behind)} to="/clients?state=behind&sort=-owed" kind=${behind ? "warn" : ""} values=${sparks["clients_behind"]} sub=${T.overview.behindSub} />
    <${Tile} label=${T.overview.commit} value=${atMost(recentQuantile(now, "commit_seconds", 0.99))} values=${sparks["commit_seconds_p99"]} sub=${T.overview.commitSub(atMost(recentQuantile(now, "commit_seconds", 0.5)))} />
    <${Tile} label=${T.overview.lag} value=${atMost(recentQuantile(now, "loop_lag_seconds", 0.99))} values=${sparks["loop_lag_seconds_p99"]} sub=${T.overview.lagSub} />
    <${Tile} label=${T.overview.drops} value=${number(rate(drops))} unit=${T.overview.perSecond} to="/events" kind=${drops ? "warn" : ""} values=${sparks["drops_total"]} sub=${`${short(now ? total(now, "drops_total") ?? 0 : null)} ${T.overview.dropsSub}`} />
  </div>`;
}

/** A rate without digits that jump: whole above 10. @param {number | undefined} value */
const rate = (value) => (value === undefined ? value : value >= 10 ? Math.round(value) : value);

/** @param {{series: Series | null, seconds: number}} props */
function Charts({ series, seconds }) {
  // While the broker is silent, time goes on without values.
  if (isOld.value) tick.value;
  const last_s = series?.times.at(-1);
  const to_s = last_s === undefined || isOld.value ? now_us() / 1e6 : last_s;
  // Of a broker that has not run for as long, the time is shown in which it did.
  const first = series?.columns["connections"]?.findIndex((value) => value !== null) ?? -1;
  const first_s = first < 0 ? to_s : /** @type {number} */ (series?.times[first]);
  const from_s = Math.max(to_s - seconds, Math.min(first_s, to_s - Math.max(120, seconds / 30)));
  const views = useMemo(() => CHARTS.map((chart) => ({
    ...chart, lines: chart.lines.map((line) => ({ label: line.label, values: series?.columns[line.name] ?? [] })),
  })), [series]);
  return html`<div class="charts">${views.map((chart) => html`<section class="panel" key=${chart.title}>
    <div class="panel-head"><h2>${chart.title}</h2></div>
    <div class="panel-body">${series
      ? html`<${Chart} label=${chart.title} times=${series.times} lines=${chart.lines} reported=${series.columns["connections"]} format=${chart.format} axis=${chart.axis} from_s=${from_s} to_s=${to_s} sync="overview" height=${150} />`
      : html`<p class="empty">${T.table.loading}</p>`}</div>
  </section>`)}</div>`;
}

function Headline() {
  tick.value;
  const here = node.value;
  const state = nodeState();
  return html`<p class="headline">
    ${here && html`<span>${T.overview.up(duration((now_us() - here.started_us) / 1e6))}</span><span>${here.version} ${here.compiled ? T.overview.compiled : T.overview.interpreted}</span><span>${here.durability}</span>${here.data_folder && html`<span class="mono">${here.data_folder}</span>`}`}
    ${here?.detail && state.kind !== "good" && html`<span>${here.detail}</span>`}</p>`;
}

export function Page() {
  const [query, setQuery] = useQuery({ range: "1h" });
  const range = RANGES[query.range] ?? /** @type {{seconds: number, label: string}} */ (RANGES["1h"]);
  const { series } = useSeries(range.seconds);
  return html`<div class="page overview">
    <div class="page-head"><h1>${T.overview.title}</h1><${Headline} /><span class="spring"></span>
      <${Choice} label=${T.chart.range} value=${query.range} options=${Object.entries(RANGES).map(([value, { label }]) => ({ value, label }))} onChange=${(/** @type {string} */ value) => setQuery({ range: value }, { push: true })} />
      <${CopyAs} address=${location.href} curl=${asCurl("stats")} command=${holdfast("status", ["--json"])} more=${[{ label: T.overview.seriesCurl, text: asCurl("series", seriesParams(range.seconds, Math.floor(now_us() / 60e6) * 60e6)) }]} /></div>
    <${Tiles} series=${series} />
    <${Charts} series=${series} seconds=${range.seconds} />
    <div class="panels">
      <${Alarms} />
      <${Storage} />
      <${Drops} key=${query.range} range=${RANGES[query.range] ? query.range : "1h"} label=${range.label} dropped=${droppedOf(series)} rough=${series !== null && series.step_s > 1} />
      <${Listeners} />
    </div>
  </div>`;
}
