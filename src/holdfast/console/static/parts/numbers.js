/**
 * What is computed from frames of numbers: sums over labels, quantiles of what happened lately, how long until the disk is full.
 */
import { frames } from "./live.js";

/** @typedef {import("./live.js").Stats} Stats */

/**
 * A metric's value, or the sum over its labels; null if the broker does not report it.
 * @param {Stats | null} stats
 * @param {string} name
 */
export function total(stats, name) {
  if (!stats) return null;
  const plain = stats.numbers[name];
  if (plain !== undefined) return plain;
  const labelled = stats.labelled[name];
  return labelled ? Object.values(labelled).reduce((sum, value) => sum + value, 0) : null;
}

/**
 * The bound that a share of the values does not exceed. The truth is at most that; above the last bound it is unknown,
 * and the last one is given.
 * @param {number[]} bounds
 * @param {number[]} counts one more than bounds
 * @param {number} share from 0 to 1
 * @returns {number | null} null if nothing was counted
 */
export function quantile(bounds, counts, share) {
  const all = counts.reduce((sum, count) => sum + count, 0);
  if (all <= 0) return null;
  let below = 0;
  for (let i = 0; i < counts.length; i += 1) {
    below += counts[i] ?? 0;
    if (below >= share * all) return bounds[i] ?? bounds.at(-1) ?? null;
  }
  return bounds.at(-1) ?? null;
}

/**
 * A quantile of what was added to a histogram since the oldest frame that is kept, about half a minute.
 * @param {Stats | null} stats
 * @param {string} name
 * @param {number} share
 */
export function recentQuantile(stats, name, share) {
  const now = stats?.histograms[name];
  if (!now) return null;
  const then = frames[0] === stats ? undefined : frames[0]?.histograms[name];
  let counts = now.counts;
  if (then && then.counts.length === now.counts.length) {
    const since = now.counts.map((count, i) => count - (then.counts[i] ?? 0));
    // A broker that was started again counts from 0.
    if (since.every((count) => count >= 0)) counts = since;
  }
  return quantile(now.bounds_s, counts, share);
}

/** Fewer values say nothing about a pace. */
const LEAST_VALUES = 10;

/**
 * In how many seconds a falling number reaches 0, by the straight line through its values; null if it does not fall.
 * `of_s` is the time that the values span: null if there are too few to say anything, and then `seconds` says nothing.
 * @param {(number | null)[]} values
 * @param {number} step_s
 * @returns {{seconds: number | null, of_s: number | null}}
 */
export function untilZero(values, step_s) {
  let n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0, last = null, first = 0, end = 0;
  for (let i = 0; i < values.length; i += 1) {
    const y = values[i];
    if (y === null || y === undefined) continue;
    if (n === 0) first = i;
    n += 1; sx += i; sy += y; sxx += i * i; sxy += i * y;
    last = y;
    end = i;
  }
  if (n < LEAST_VALUES || last === null) return { seconds: null, of_s: null };
  const slope = (n * sxy - sx * sy) / (n * sxx - sx * sx) / step_s;
  return { seconds: slope < 0 ? last / -slope : null, of_s: (end - first) * step_s };
}
