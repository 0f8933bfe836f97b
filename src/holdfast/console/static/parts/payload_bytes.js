/**
 * Topics and payloads as the API sends them, as text for rows and lines for the hex view. No markup is made here.
 *
 * The API sends `{text}` for UTF-8 without control characters, else `{base64}`; `cut` and `bytes` say that there is more.
 */
import { toBytes, toText, visible } from "./format.js";

/** @typedef {{text?: string, base64?: string, cut?: boolean, bytes?: number}} Wire */

const STRICT = new TextDecoder("utf-8", { fatal: true });

/**
 * The text, or null if the bytes are no UTF-8. A character that was cut in two at the end does not count.
 * @param {Uint8Array} bytes
 * @param {boolean} [cut]
 */
export function textOf(bytes, cut = false) {
  for (let spare = 0; spare <= (cut ? 3 : 0); spare++) {
    try {
      return STRICT.decode(spare ? bytes.subarray(0, bytes.length - spare) : bytes);
    } catch {
      continue;
    }
  }
  return null;
}

/**
 * A name (topic, client) as one line in which nothing is invisible.
 * @param {Wire | string | null | undefined} wire
 * @param {number} [limit] characters
 */
export function nameOf(wire, limit = 200) {
  return wire === null || wire === undefined ? "" : visible(toText(wire), limit);
}

/**
 * The name as it can be sent back to the API; null if it is no text.
 * @param {Wire | string} wire
 */
export function askable(wire) {
  return typeof wire === "string" ? wire : wire.text ?? textOf(toBytes(wire));
}

/**
 * The beginning of a payload in one line, for a row of a table.
 * @param {Wire | null | undefined} wire
 * @param {number} [limit] characters
 */
export function glance(wire, limit = 120) {
  if (!wire) return "";
  if (typeof wire.text === "string") {
    const text = visible(wire.text.slice(0, limit), limit);
    return wire.text.length > limit || wire.cut ? `${text}…` : text;
  }
  const bytes = toBytes(wire);
  const shown = Array.from(bytes.subarray(0, 24), hex2).join(" ");
  return bytes.length > 24 || wire.cut ? `${shown} …` : shown;
}

/** @param {number} byte */
export function hex2(byte) {
  return byte.toString(16).padStart(2, "0");
}

/**
 * Lines of a hex view: offset, sixteen bytes, the same as characters.
 * @param {Uint8Array} bytes
 * @param {number} most lines
 */
export function hexLines(bytes, most) {
  const lines = [];
  for (let at = 0; at < bytes.length && lines.length < most; at += 16) {
    const row = Array.from(bytes.subarray(at, at + 16));
    const left = row.slice(0, 8).map(hex2).join(" ");
    const right = row.slice(8).map(hex2).join(" ");
    const text = row.map((b) => (b >= 0x20 && b < 0x7f ? String.fromCharCode(b) : "·")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${left.padEnd(23)}  ${right.padEnd(23)}  ${text}`);
  }
  return lines;
}
