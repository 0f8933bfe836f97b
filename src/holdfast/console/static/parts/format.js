/**
 * Values as text: numbers, bytes, durations, times, and text of unknown origin.
 *
 * Rules: times are Unix µs; an unknown value is "–", never 0; a cut text says so.
 */
import { effect, signal } from "./html.js";

export const NONE = "–";

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const one = new Intl.NumberFormat("en-US", { maximumFractionDigits: 1 });
const fine = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 3 });

/** @param {number | null | undefined} value @returns {value is number} */
const known = (value) => typeof value === "number" && Number.isFinite(value);

/**
 * With thousands: 41,203. Below 10 with up to three digits: 0.25.
 * @param {number | null | undefined} value
 */
export function number(value) {
  if (!known(value)) return NONE;
  if (Number.isInteger(value) || Math.abs(value) >= 100) return whole.format(value).replace("-", "−");
  return (Math.abs(value) >= 10 ? one : fine).format(value).replace("-", "−");
}

/**
 * Short: 41.2k, 9.81M. For axes and narrow places; the exact value stands beside it.
 * @param {number | null | undefined} value
 */
export function short(value) {
  if (!known(value)) return NONE;
  for (const [limit, sign] of /** @type {const} */ ([[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]])) {
    if (Math.abs(value) >= limit) return fine.format(value / limit).replace("-", "−") + sign;
  }
  return number(value);
}

/** @param {number | null | undefined} value */
export function bytes(value) {
  if (!known(value)) return NONE;
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let rest = value;
  let unit = 0;
  while (Math.abs(rest) >= 999.5 && unit < units.length - 1) {
    rest /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? whole.format(rest) : fine.format(rest)} ${units[unit]}`;
}

/** @param {number | null | undefined} value from 0 to 1 */
export function percent(value) {
  return known(value) ? `${value > 0 && value < 0.01 ? "<1" : whole.format(value * 100)} %` : NONE;
}

/**
 * 900 µs, 4 ms, 12 s, 5 min, 2 h, 3 d, with two units where one is coarse: 2 h 5 min.
 * @returns {string}
 * @param {number | null | undefined} seconds
 */
export function duration(seconds) {
  if (!known(seconds)) return NONE;
  if (seconds < 0) return `−${duration(-seconds)}`;
  if (seconds === 0) return "0 s";
  if (seconds < 0.0009995) return `${fine.format(seconds * 1e6)} µs`;
  if (seconds < 0.9995) return `${fine.format(seconds * 1e3)} ms`;
  if (seconds < 9.95) return `${one.format(seconds)} s`;
  const s = Math.round(seconds);
  if (s < 60) return `${s} s`;
  const steps = /** @type {const} */ ([[86_400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]]);
  for (const [size, name, smallSize, smallName] of steps) {
    if (s < size) continue;
    const big = Math.floor(s / size);
    const small = Math.floor((s % size) / smallSize);
    return big >= 10 || small === 0 ? `${whole.format(big)} ${name}` : `${big} ${name} ${small} ${smallName}`;
  }
  return `${s} s`;
}

/**
 * How long ago, in one unit: 3 d.
 * @param {number | null | undefined} at_us
 * @param {number} now_us
 */
export function age(at_us, now_us) {
  if (!known(at_us)) return NONE;
  const s = Math.max(0, (now_us - at_us) / 1e6);
  for (const [size, name] of /** @type {const} */ ([[86_400, "d"], [3600, "h"], [60, "min"]])) {
    if (s >= size) return `${whole.format(Math.floor(s / size))} ${name}`;
  }
  return `${Math.floor(s)} s`;
}

const KEPT = "holdfast.time_zone";

/** @returns {"utc" | "local"} */
function keptZone() {
  try {
    return localStorage.getItem(KEPT) === "local" ? "local" : "utc";
  } catch {
    return "utc";
  }
}

/** Whether times are shown in UTC or in the browser's zone. Kept across visits. */
export const timeZone = signal(keptZone());

effect(() => {
  const zone = timeZone.value;
  try {
    localStorage.setItem(KEPT, zone);
  } catch {
    // A browser that keeps nothing shows UTC at the next visit.
  }
});

/** The zone's name for headings: "UTC", or the browser's, such as "GMT+2". */
export function zoneName() {
  if (timeZone.value === "utc") return "UTC";
  const part = new Intl.DateTimeFormat("en-US", { timeZoneName: "short" }).formatToParts(new Date());
  return part.find((p) => p.type === "timeZoneName")?.value ?? "local";
}

/** @param {number} value @param {number} [digits] */
const pad = (value, digits = 2) => String(value).padStart(digits, "0");

/**
 * The parts of a moment in the zone that is shown.
 * @param {number} at_us
 */
export function clock(at_us) {
  const date = new Date(Math.floor(at_us / 1000));
  const utc = timeZone.value === "utc";
  return {
    year: utc ? date.getUTCFullYear() : date.getFullYear(),
    month: (utc ? date.getUTCMonth() : date.getMonth()) + 1,
    day: utc ? date.getUTCDate() : date.getDate(),
    hour: utc ? date.getUTCHours() : date.getHours(),
    minute: utc ? date.getUTCMinutes() : date.getMinutes(),
    second: utc ? date.getUTCSeconds() : date.getSeconds(),
    micro: ((at_us % 1e6) + 1e6) % 1e6,
  };
}

/**
 * 14:03:11, with milliseconds ("ms") or microseconds ("us").
 * @param {number | null | undefined} at_us
 * @param {"min" | "s" | "ms" | "us"} [precision]
 */
export function timeOfDay(at_us, precision = "s") {
  if (!known(at_us)) return NONE;
  const c = clock(at_us);
  const text = `${pad(c.hour)}:${pad(c.minute)}`;
  if (precision === "min") return text;
  const fraction = precision === "s" ? "" : `.${pad(Math.floor(c.micro), 6).slice(0, precision === "ms" ? 3 : 6)}`;
  return `${text}:${pad(c.second)}${fraction}`;
}

/** 2026-11-18 @param {number | null | undefined} at_us */
export function day(at_us) {
  if (!known(at_us)) return NONE;
  const c = clock(at_us);
  return `${pad(c.year, 4)}-${pad(c.month)}-${pad(c.day)}`;
}

/**
 * 2026-11-18 14:03:11
 * @param {number | null | undefined} at_us
 * @param {"min" | "s" | "ms" | "us"} [precision]
 */
export function time(at_us, precision = "s") {
  return known(at_us) ? `${day(at_us)} ${timeOfDay(at_us, precision)}` : NONE;
}

/**
 * ISO 8601 in UTC with microseconds, as commands and the API read it.
 * @param {number} at_us
 */
export function iso(at_us) {
  const date = new Date(Math.floor(at_us / 1e6) * 1000);
  return `${date.toISOString().slice(0, 19)}.${pad(((at_us % 1e6) + 1e6) % 1e6, 6)}Z`;
}

// Control characters, marks that turn or hide text, separators of lines, lone surrogates, tags.
const HIDDEN = new RegExp(
  "[\\p{Cc}\\u00ad\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180e\\u200b-\\u200f\\u2028-\\u202f\\u2060-\\u206f\\u3164\\ufe00-\\ufe0f"
  + "\\ufeff\\uffa0\\ufff0-\\uffff\\u{e0000}-\\u{e0fff}\\p{Cs}]", "gu",
);

/** @param {string} character */
function escaped(character) {
  const code = character.codePointAt(0) ?? 0;
  const known = /** @type {Record<number, string>} */ ({ 0: "\\0", 9: "\\t", 10: "\\n", 13: "\\r" })[code];
  return known ?? (code < 0x100 ? `\\x${pad2hex(code)}` : `\\u{${code.toString(16)}}`);
}

/** @param {number} code */
const pad2hex = (code) => code.toString(16).padStart(2, "0");

/** @typedef {{text: string, escape: boolean}} Piece */

/**
 * Text in pieces, in which what cannot be seen became an escape. `cut` is how many characters are left out.
 * @param {string} text
 * @param {number} [limit] characters
 * @param {{lines?: boolean}} [options] lines: keep tabs and ends of lines
 * @returns {{pieces: Piece[], cut: number}}
 */
export function pieces(text, limit = 200, { lines = false } = {}) {
  // Twice the limit of UTF-16 units always holds the limit of characters.
  const characters = [...text.slice(0, limit * 2)];
  const shown = characters.slice(0, limit).join("");
  const cut = text.length > limit * 2 ? text.length - shown.length : Math.max(0, characters.length - limit);
  /** @type {Piece[]} */
  const result = [];
  let from = 0;
  for (const match of shown.matchAll(HIDDEN)) {
    if (lines && (match[0] === "\n" || match[0] === "\t")) continue;
    if (match.index > from) result.push({ text: shown.slice(from, match.index), escape: false });
    result.push({ text: escaped(match[0]), escape: true });
    from = match.index + match[0].length;
  }
  if (from < shown.length) result.push({ text: shown.slice(from), escape: false });
  return { pieces: result, cut };
}

/**
 * The same as one string: "a\u{202e}b…(+65,416)".
 * @param {string | null | undefined} text
 * @param {number} [limit]
 */
export function visible(text, limit = 200) {
  if (text === null || text === undefined) return NONE;
  const parts = pieces(text, limit);
  return parts.pieces.map((piece) => piece.text).join("") + (parts.cut ? `… (+${whole.format(parts.cut)})` : "");
}

/**
 * The bytes of a value as the API sends them.
 * @param {{text?: string, base64?: string} | string | null | undefined} value
 * @returns {Uint8Array}
 */
export function toBytes(value) {
  if (typeof value === "string") return new TextEncoder().encode(value);
  if (value?.base64 !== undefined) return Uint8Array.from(atob(value.base64), (c) => c.charCodeAt(0));
  return new TextEncoder().encode(value?.text ?? "");
}

/**
 * A value as the API sends it, as text in which every byte that is no text is an escape.
 * @param {{text?: string, base64?: string} | string | null | undefined} value
 */
export function toText(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "string") return value;
  if (value.text !== undefined) return value.text;
  const raw = toBytes(value);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(raw);
  } catch {
    return [...raw].map((b) => (b >= 0x20 && b < 0x7f ? String.fromCharCode(b) : `\\x${pad2hex(b)}`)).join("");
  }
}
