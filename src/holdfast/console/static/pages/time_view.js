/**
 * What the time machine shows, as an address: everything is in the query, so a link opens the same view elsewhere.
 *
 *     /time?f=plant/%2B/temp&from=2026-11-18T13:00:00Z&to=…&at=…&b=…&tz=local&zone=…&client=…&payload=…&mode=live
 *
 * Times are ISO 8601 in UTC, Unix µs, or an age such as -1h. An age is replaced by its moment when the page opens.
 * A time that cannot be read is kept as it was typed, with an error for its field; the rest of the view goes on.
 */
import { iso } from "../parts/format.js";

/**
 * @typedef {object} View
 * @property {string} filter
 * @property {string} zone
 * @property {string} client
 * @property {string} payload
 * @property {number | null} from
 * @property {number | null} to
 * @property {number | null} at
 * @property {number | null} b
 * @property {"" | "live"} mode
 * @property {"" | "local" | "utc"} tz
 * @property {string[]} plot topics
 * @property {string} path
 * @property {number} lookBack_s
 * @property {boolean} retained
 * @property {Record<string, string>} wrong errors by the name of the parameter
 */

export const DEFAULT_LOOK_BACK_S = 3600;
export const MAX_PLOTS = 8;
/** Messages that one question brings, and columns of a plot. */
export const PAGE = 100;
export const PLOT_POINTS = 600;
/** The range of live: so many seconds up to now. */
export const LIVE_SPAN_S = 300;
const UNITS_US = /** @type {Record<string, number>} */ ({ s: 1e6, m: 60e6, h: 3600e6, d: 86_400e6, w: 604_800e6 });

/**
 * A time as people write it, in µs; throws an Error that says what would be right.
 * @param {string} text
 * @param {number} now_us
 * @param {{local?: boolean}} [options] local: a time without a zone is the browser's, not UTC
 */
export function parseTime(text, now_us, { local = false } = {}) {
  const word = text.trim();
  if (word === "now" || word === "latest") return now_us;
  if (word === "earliest") return 0;
  const ago = /^-(\d{1,9})([smhdw])$/.exec(word);
  if (ago) return Math.max(0, Math.round(now_us - Number(ago[1]) * UNITS_US[ago[2]]));
  if (/^\d{10,16}$/.test(word)) return Number(word);
  const parts = /^(?:(\d{4}-\d{2}-\d{2})[T ])?(\d{2}:\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?\s*(Z|UTC|[+-]\d{2}:\d{2})?$/i.exec(word)
    ?? (/^\d{4}-\d{2}-\d{2}$/.test(word) ? [word, word, "00:00", "00", "", ""] : null);
  if (parts) {
    const zone = parts[5] ? (/^(Z|UTC)$/i.test(parts[5]) ? "Z" : parts[5]) : local ? "" : "Z";
    const day = parts[1] ?? dayOf(now_us, local && !parts[5]);
    const ms = Date.parse(`${day}T${parts[2]}:${parts[3] ?? "00"}${zone}`);
    if (Number.isFinite(ms)) return ms * 1000 + Number((parts[4] ?? "").padEnd(6, "0") || 0);
  }
  throw new Error(`${JSON.stringify(word.slice(0, 40))} is no time: write 2026-07-01 13:41:07.201, 13:41:07, Unix microseconds, -2h (s, m, h, d, w) or now`);
}

/** @param {number} at_us @param {boolean} local */
function dayOf(at_us, local) {
  const date = new Date(at_us / 1000);
  if (!local) return date.toISOString().slice(0, 10);
  return `${date.getFullYear()}-${String(date.getMonth() + 1).padStart(2, "0")}-${String(date.getDate()).padStart(2, "0")}`;
}

/**
 * @param {string} search
 * @param {number} now_us
 * @returns {View}
 */
export function readView(search, now_us) {
  const params = new URLSearchParams(search);
  /** @type {Record<string, string>} */
  const wrong = {};
  const moment = (/** @type {string} */ name) => {
    const text = params.get(name);
    if (!text) return null;
    try {
      return parseTime(text, now_us);
    } catch (error) {
      wrong[name] = /** @type {Error} */ (error).message;
      return null;
    }
  };
  const from = moment("from");
  const to = moment("to");
  if (from !== null && to !== null && to <= from) wrong.to = "the end is not after the beginning";
  const lookBack = Number(params.get("look") ?? DEFAULT_LOOK_BACK_S);
  const tz = params.get("tz");
  return {
    filter: params.get("f") || "#",
    zone: params.get("zone") ?? "",
    client: params.get("client") ?? "",
    payload: params.get("payload") ?? "",
    from: wrong.to ? null : from,
    to: wrong.to ? null : to,
    at: moment("at"),
    b: moment("b"),
    mode: params.get("mode") === "live" ? "live" : "",
    tz: tz === "local" ? "local" : tz ? "utc" : "",
    plot: params.getAll("plot").slice(0, MAX_PLOTS),
    path: params.get("path") || "$",
    lookBack_s: Number.isInteger(lookBack) && lookBack > 0 ? lookBack : DEFAULT_LOOK_BACK_S,
    retained: params.get("retained") === "1",
    wrong,
  };
}

/**
 * The address of a view.
 * @param {View} view
 * @returns {string}
 */
export function addressOf(view) {
  /** @type {[string, string][]} */
  const pairs = [["f", view.filter]];
  for (const name of /** @type {const} */ (["from", "to", "at", "b"])) {
    const value = view[name];
    if (value !== null) pairs.push([name, isoShort(value)]);
  }
  if (view.tz) pairs.push(["tz", view.tz === "local" ? "local" : "UTC"]);
  for (const name of /** @type {const} */ (["zone", "client", "payload", "mode"])) if (view[name]) pairs.push([name, view[name]]);
  for (const topic of view.plot) pairs.push(["plot", topic]);
  if (view.plot.length && view.path !== "$") pairs.push(["path", view.path]);
  if (view.lookBack_s !== DEFAULT_LOOK_BACK_S) pairs.push(["look", String(view.lookBack_s)]);
  if (view.retained) pairs.push(["retained", "1"]);
  return `/time?${pairs.map(([name, value]) => `${name}=${encode(value)}`).join("&")}`;
}

/** What an address may hold as it is stays readable. @param {string} text */
function encode(text) {
  const safe = encodeURIComponent(text.toWellFormed?.() ?? text).replaceAll("'", "%27");
  return safe.replace(/%(3A|2F|24|2C|40)/g, (code) => decodeURIComponent(code));
}

/** ISO 8601 without zeros at the end of the fraction. @param {number} at_us */
export function isoShort(at_us) {
  return iso(Math.round(at_us)).replace(/\.?0+Z$/, "Z");
}
