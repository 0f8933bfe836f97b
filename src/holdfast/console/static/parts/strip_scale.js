/**
 * The arithmetic of a strip: time to pixels and back, zoom, steps, ticks. No canvas, no clock.
 *
 * A range is [from, to) in Unix µs. The narrowest range is 10 ms: below that a bar has no meaning that a list has not.
 */
import { clock, timeOfDay } from "./format.js";

/** @typedef {{from: number, to: number}} Range */

export const MIN_SPAN_US = 10_000;
const SECOND_US = 1e6;
const DAY_US = 86_400e6;

/** Steps of the axis, from 1 ms to a year. */
const STEPS_US = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500].map((n) => n * 1000),
  ...[1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200].map((n) => n * SECOND_US),
  ...[1, 2, 7, 14, 30, 61, 91, 182, 365].map((n) => n * DAY_US),
];

/** @param {number} value @param {number} low @param {number} high */
export function clamp(value, low, high) {
  return Math.min(Math.max(value, low), high);
}

/** @param {Range} view @param {number} width @param {number} at_us */
export function toX(view, width, at_us) {
  return ((at_us - view.from) / (view.to - view.from)) * width;
}

/** @param {Range} view @param {number} width @param {number} x */
export function toTime(view, width, x) {
  return view.from + (x / Math.max(1, width)) * (view.to - view.from);
}

/**
 * A time rounded to what a pixel can tell, so that addresses and fields stay short.
 * @param {Range} view
 * @param {number} width
 * @param {number} at_us
 */
export function rounded(view, width, at_us) {
  const pixel_us = (view.to - view.from) / Math.max(1, width);
  const unit = [60 * SECOND_US, 10 * SECOND_US, SECOND_US, 100_000, 10_000, 1000, 100, 10].find((u) => u <= pixel_us) ?? 1;
  return Math.round(at_us / unit) * unit;
}

/**
 * The range zoomed by a factor (above 1: wider) around a time, inside the bounds.
 * @param {Range} range
 * @param {number} around_us
 * @param {number} factor
 * @param {Range} bounds
 * @returns {Range}
 */
export function zoomed(range, around_us, factor, bounds) {
  const most = bounds.to - bounds.from;
  const span = clamp((range.to - range.from) * factor, Math.min(MIN_SPAN_US, most), most);
  const share = clamp((around_us - range.from) / (range.to - range.from), 0, 1);
  return inside({ from: Math.round(around_us - share * span), to: Math.round(around_us + (1 - share) * span) }, bounds);
}

/**
 * The range, moved into the bounds; cut only if it is longer than they are.
 * @param {Range} range
 * @param {Range} bounds
 * @returns {Range}
 */
export function inside(range, bounds) {
  const span = Math.min(range.to - range.from, bounds.to - bounds.from);
  const from = clamp(range.from, bounds.from, bounds.to - span);
  return { from: Math.round(from), to: Math.round(from + span) };
}

/**
 * One step of an arrow key: a bucket of a hundred and twenty, a round time.
 * @param {Range} view
 */
export function keyStep(view) {
  const raw = (view.to - view.from) / 120;
  let step = 1000;
  for (const one of STEPS_US) if (one <= raw) step = one;
  return step;
}

/**
 * Marks of the axis with their labels, at least `gap` pixels apart.
 * @param {Range} view
 * @param {number} width
 * @param {number} [gap]
 * @returns {{at_us: number, label: string, strong: boolean}[]}
 */
export function ticks(view, width, gap = 92) {
  const span = view.to - view.from;
  const least = (span / Math.max(1, width)) * gap;
  const step = STEPS_US.find((one) => one >= least) ?? Math.ceil(least / (365 * DAY_US)) * 365 * DAY_US;
  const shift = offset_us(view.from);
  const list = [];
  for (let local = Math.ceil((view.from + shift) / step) * step; local - shift < view.to && list.length < 60; local += step) {
    const at_us = local - shift;
    const midnight = local % DAY_US === 0;
    list.push({ at_us, label: midnight ? dayLabel(at_us) : timeLabel(at_us, step), strong: midnight });
  }
  return list;
}

/** What has to be added to UTC for the zone that is shown. @param {number} at_us */
function offset_us(at_us) {
  const shown = clock(at_us);
  const utc_s = Date.UTC(shown.year, shown.month - 1, shown.day, shown.hour, shown.minute, shown.second) / 1000;
  return (utc_s - Math.floor(at_us / SECOND_US)) * SECOND_US;
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** @param {number} at_us */
export function dayLabel(at_us) {
  const shown = clock(at_us);
  return `${shown.day} ${MONTHS[shown.month - 1]}`;
}

/** @param {number} at_us @param {number} step */
function timeLabel(at_us, step) {
  return timeOfDay(at_us, step >= 60 * SECOND_US ? "min" : step >= SECOND_US ? "s" : "ms");
}
