/**
 * What the whole page knows at any time: who is logged in, the node, the newest numbers, the alarms and jobs, and how old they are.
 *
 * Rules:
 * 1. Nothing here looks fresh that is old: `frameAge_s` grows from second to second, also when nothing arrives.
 * 2. The last numbers stay when the broker hangs or the console is gone. They are shown with their age.
 */
import { get, stream } from "./api.js";
import { computed, signal } from "./html.js";

/** @typedef {{name: string, role: string, expires_us: number, kind: string}} Me */
/** @typedef {{bounds_s: number[], counts: number[], sum: number}} Histogram */
/**
 * @typedef {object} Stats
 * @property {number} as_of_us
 * @property {number | null} age_s null if no frame ever came
 * @property {Record<string, number>} numbers
 * @property {Record<string, Record<string, number>>} labelled
 * @property {Record<string, Histogram>} histograms
 * @property {Record<string, number>} rates
 */
/**
 * @typedef {object} Alarm
 * @property {string} alarm
 * @property {number} since_us
 * @property {number | null} until_us
 * @property {string} detail
 * @property {number | null} muted_until_us
 * @property {string} runbook
 */

/**
 * @typedef {object} Job
 * @property {string} id
 * @property {"running" | "done" | "stopped" | "failed"} state
 * @property {{filter: string, from_us: number, until_us: number, speed: string, prefix: string, user: string}} replay
 * @property {string} by
 * @property {number} began_us
 * @property {number} messages
 * @property {number | null} at_us
 * @property {number | null} share
 * @property {string} detail
 * @property {string} place behind which another run goes on; empty before the first message
 * @property {string} command of the last run
 */

/** Numbers older than this are called old. */
export const OLD_S = 5;

/** @type {import("../vendor/signals.js").Signal<Me | null>} */
export const me = signal(/** @type {Me | null} */ (null));
/** @type {import("../vendor/signals.js").Signal<any>} the answer of GET node */
export const node = signal(/** @type {any} */ (null));
/** @type {import("../vendor/signals.js").Signal<Stats | null>} */
export const stats = signal(/** @type {Stats | null} */ (null));
/** @type {import("../vendor/signals.js").Signal<Alarm[]>} those that have not ended */
export const alarms = signal(/** @type {Alarm[]} */ ([]));
/** @type {import("../vendor/signals.js").Signal<Job[]>} the newest first */
export const jobs = signal(/** @type {Job[]} */ ([]));
/** "opening", "open" or "lost": the event stream. */
export const connection = signal("opening");
/** Counts seconds while the tab is visible. */
export const tick = signal(0);

let offset_us = 0;
let arrived_ms = 0;
/** @type {Stats[]} the frames of the last half minute, oldest first */
export const frames = [];
const FRAMES = 30;

/** The broker's clock, as far as it is known. */
export function now_us() {
  return Date.now() * 1000 + offset_us;
}

/** How old the newest numbers are, in seconds; null before the first. */
export const frameAge_s = computed(() => {
  tick.value;
  if (!stats.value || stats.value.age_s === null) return null;
  return stats.value.age_s + (performance.now() - arrived_ms) / 1000;
});

/** Whether the newest numbers are old. */
export const isOld = computed(() => (frameAge_s.value ?? 0) > OLD_S);

/** @param {any} answer */
function takeNode(answer) {
  node.value = { ...(node.peek() ?? {}), ...answer };
  if (answer.now_us) offset_us = answer.now_us - Date.now() * 1000;
}

/** @param {Stats} frame */
function takeStats(frame) {
  arrived_ms = performance.now();
  if (frame.age_s !== null && frames.at(-1)?.as_of_us !== frame.as_of_us) frames.push(frame);
  if (frames.length > FRAMES) frames.shift();
  stats.value = frame;
}

/** @param {{items: Alarm[]}} answer */
function takeAlarms(answer) {
  alarms.value = (answer.items ?? []).filter((alarm) => alarm.until_us === null);
}

/** Jobs that are new or have changed; the others stay. @param {{items: Job[]}} answer */
function takeJobs(answer) {
  const changed = new Map((answer.items ?? []).map((job) => [job.id, job]));
  const kept = jobs.peek().map((job) => changed.get(job.id) ?? job);
  const known = new Set(kept.map((job) => job.id));
  jobs.value = [...[...changed.values()].filter((job) => !known.has(job.id)), ...kept];
}

/** Asks once for everything, then listens. */
export async function start() {
  me.value = await get("me");
  await Promise.allSettled([
    get("node").then(takeNode), get("stats").then(takeStats), get("alarms").then(takeAlarms), get("jobs").then(takeJobs),
  ]);
  stream((name, data) => {
    if (name === "stats") takeStats(data);
    if (name === "node") takeNode(data);
    if (name === "alarms") takeAlarms(data);
    if (name === "jobs") takeJobs(data);
    if (name === "connection") connection.value = data;
  });
  setInterval(() => {
    if (!document.hidden) tick.value += 1;
  }, 1000);
}

/** Asks for the alarms again, as after one was muted. */
export async function refreshAlarms() {
  takeAlarms(await get("alarms"));
}

/** Asks for the jobs again, as after one was started or stopped. */
export async function refreshJobs() {
  takeJobs(await get("jobs"));
}

const ROLES = ["viewer", "reader", "operator", "admin"];

/**
 * Whether the one who is logged in has at least a role.
 * @param {"viewer" | "reader" | "operator" | "admin"} role
 */
export function may(role) {
  return ROLES.indexOf(me.value?.role ?? "") >= ROLES.indexOf(role);
}
