/**
 * Which time is kept, and which range and moment a view means. Pure.
 *
 * 1. from < to, and from ≤ A ≤ to.
 * 2. A view that names no range shows the last day, or half an hour around the moment that it names.
 */
import { number, time } from "../parts/format.js";
import { clamp } from "../parts/strip_scale.js";

/** @typedef {import("./time_view.js").View} View */
/** @typedef {import("../parts/strip_scale.js").Range} Range */
/** @typedef {{range: Range, oldest_us: number, now_us: number, lost: number, messages: number}} Whole */

const SECOND_US = 1e6;
const DAY_US = 86_400e6;
const HALF_HOUR_US = 1800e6;

/**
 * The whole time that is kept, with room at the left for what retention took.
 * @param {any} answer of history/zones
 * @param {string} zone "" for all
 * @returns {Whole | null} null if nothing is kept
 */
export function wholeOf(answer, zone) {
  // A zone that does not exist or holds nothing gets the time of all: the answers say what is wrong with it.
  const own = answer.zones.filter((/** @type {any} */ one) => one.name === zone && one.oldest_us !== null);
  const zones = own.length ? own : answer.zones;
  const oldest = Math.min(...zones.map((/** @type {any} */ one) => one.oldest_us ?? Infinity));
  if (!Number.isFinite(oldest)) return null;
  const sum = (/** @type {string} */ name) => zones.reduce((/** @type {number} */ n, /** @type {any} */ one) => n + (one[name] ?? 0), 0);
  const now_us = answer.as_of_us;
  const to = (Math.floor(now_us / SECOND_US) + 1) * SECOND_US;
  const first = Math.floor(oldest / SECOND_US) * SECOND_US;
  const lost = sum("dropped_at_most");
  const edge = lost ? Math.round((to - first) * 0.05) : 0;
  return { range: { from: first - edge, to }, oldest_us: first, now_us, lost, messages: sum("messages") };
}

/**
 * The view with a range and a moment.
 * @param {View} view
 * @param {Whole} whole
 * @returns {View & {from: number, to: number, at: number}}
 */
export function resolved(view, whole) {
  let { from, to } = view;
  if (from === null && to === null && view.at !== null) {
    from = view.at - HALF_HOUR_US;
    to = Math.min(view.at + HALF_HOUR_US, Math.max(whole.range.to, view.at));
  }
  const end = to ?? whole.range.to;
  const begin = from ?? Math.max(whole.oldest_us, end - DAY_US);
  const start = begin < end ? begin : end - SECOND_US;
  return { ...view, from: start, to: end, at: clamp(view.at ?? end, start, end) };
}

/**
 * The range of a shortcut.
 * @param {string} name
 * @param {Whole} whole
 * @returns {Range}
 */
export function shortcutRange(name, whole) {
  const to = whole.range.to;
  if (name === "all") return { from: whole.oldest_us, to };
  return { from: to - (name === "-1h" ? DAY_US / 24 : DAY_US), to };
}

/**
 * The shortcut that a range is, "" for none.
 * @param {Range} range
 * @param {Whole} whole
 */
export function shortcutOf(range, whole) {
  return ["-1h", "-24h", "all"].find((name) => {
    const one = shortcutRange(name, whole);
    return one.from === range.from && one.to === range.to;
  }) ?? "";
}

/**
 * A range of the same length around a moment, if the moment is outside of it.
 * @param {Range} range
 * @param {number} at
 * @returns {Range}
 */
export function around(range, at) {
  if (at >= range.from && at <= range.to) return range;
  const half = Math.round((range.to - range.from) / 2);
  return { from: at - half, to: at + half };
}

/**
 * A second moment to begin with: a quarter of the range before A, or behind it where A is at the beginning.
 * @param {Range} range
 * @param {number} at
 */
export function firstB(range, at) {
  const quarter = (range.to - range.from) / 4;
  const wanted = at - quarter >= range.from ? at - quarter : at + quarter;
  return quarter > SECOND_US ? Math.round(wanted / SECOND_US) * SECOND_US : Math.round(wanted);
}

/**
 * What is to be said about the edges of the time that is kept.
 * @param {Range} range
 * @param {number | null} b
 * @param {Whole} whole
 * @returns {string[]}
 */
export function edgesOf(range, b, whole) {
  const said = [];
  const taken = whole.lost ? ` At most ${number(whole.lost)} messages were taken by retention.` : "";
  if (range.to <= whole.oldest_us) said.push(`This range lies before everything that is kept: the oldest message is of ${time(whole.oldest_us)}.${taken}`);
  else if (range.from < whole.range.from) said.push(`The range begins before everything that is kept, which is ${time(whole.oldest_us)}.${taken}`);
  if (range.from > whole.now_us) said.push(`This range lies ahead of now, ${time(whole.now_us)}: nothing is stored there yet.`);
  else if (range.to > whole.range.to) said.push(`The range ends ahead of now, ${time(whole.now_us)}.`);
  if (b !== null && b < whole.oldest_us) said.push("B lies before everything that is kept: no topic has a value there.");
  if (b !== null && b > whole.range.to) said.push("B lies ahead of now: what is stored by then is not known.");
  return said;
}
