// A reader of Sparkplug B payloads for the payload viewer: the time, the sequence number and the list of metrics.
//
//     Payload  1 timestamp  2 metrics (repeated Metric)  3 seq  4 uuid  5 body
//     Metric   1 name  2 alias  3 timestamp  4 datatype  5 is_historical  6 is_transient  7 is_null  10–18 the value
//
// 1. It never reads beyond the bytes and returns at most 5,000 metrics.
// 2. Fields that it does not know are skipped; data sets, templates and properties are named with their size, not shown.

import { Typed } from "./payload_cbor.js";
import { hex2 } from "./payload_bytes.js";

export const MAX_METRICS = 5000;

/** Data types 1–34 of Sparkplug B 3.0, by number. */
const TYPES = [
  "unknown", "Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64", "Float", "Double", "Boolean",
  "String", "DateTime", "Text", "UUID", "DataSet", "Bytes", "File", "Template", "PropertySet", "PropertySetList",
  "Int8Array", "Int16Array", "Int32Array", "Int64Array", "UInt8Array", "UInt16Array", "UInt32Array", "UInt64Array",
  "FloatArray", "DoubleArray", "BooleanArray", "StringArray", "DateTimeArray",
];

/** @typedef {{name: string, alias: number | bigint | null, at_ms: number | null, type: string, value: unknown, historical: boolean}} Metric */
/** @typedef {{at_ms: number | null, sequence: number | null, metrics: Metric[], more: number}} Sparkplug */
/** @typedef {{number: number, wire: number, value: bigint, bytes: Uint8Array}} Field */

/** @param {Uint8Array} bytes @returns {Sparkplug} throws an Error if this is no Sparkplug payload */
export function decodeSparkplug(bytes) {
  /** @type {Sparkplug} */
  const found = { at_ms: null, sequence: null, metrics: [], more: 0 };
  let known = 0;
  for (const field of fields(bytes)) {
    if (field.number === 1 && field.wire === 0) found.at_ms = Number(field.value);
    else if (field.number === 3 && field.wire === 0) found.sequence = Number(field.value);
    else if (field.number === 2 && field.wire === 2) {
      if (found.metrics.length < MAX_METRICS) found.metrics.push(metric(field.bytes));
      else found.more += 1;
    } else if (field.number > 5) throw new Error(`field ${field.number} is none of a Sparkplug payload`);
    known += 1;
  }
  if (!known || (found.at_ms === null && !found.metrics.length)) throw new Error("no time and no metrics");
  return found;
}

/** @param {Uint8Array} bytes @returns {Metric} */
function metric(bytes) {
  let name = "";
  let alias = null;
  let at = null;
  let type = 0;
  let isNull = false;
  let historical = false;
  /** @type {Field | null} */
  let value = null;
  for (const field of fields(bytes)) {
    if (field.number === 1) name = utf8(field.bytes);
    else if (field.number === 2) alias = small(field.value);
    else if (field.number === 3) at = Number(field.value);
    else if (field.number === 4) type = Number(field.value);
    else if (field.number === 5) historical = field.value !== 0n;
    else if (field.number === 7) isNull = field.value !== 0n;
    else if (field.number >= 10 && field.number <= 18) value = field;
  }
  const shown = isNull || value === null ? null : valueOf(value, type);
  return { name, alias, at_ms: at, type: TYPES[type] ?? `type ${type}`, value: shown, historical };
}

/** @param {Field} field @param {number} type */
function valueOf(field, type) {
  if (field.number === 10) return type >= 1 && type <= 3 ? Number(BigInt.asIntN(32, field.value)) : Number(field.value);
  if (field.number === 11) {
    if (type === 13) return new Typed("time", instant(Number(field.value)));
    return small(type === 4 ? BigInt.asIntN(64, field.value) : field.value);
  }
  if (field.number === 12) return new DataView(bits(field.value, 4)).getFloat32(0);
  if (field.number === 13) return new DataView(bits(field.value, 8)).getFloat64(0);
  if (field.number === 14) return field.value !== 0n;
  if (field.number === 15) return utf8(field.bytes);
  if (field.number === 16) return new Typed("bytes", Array.from(field.bytes.subarray(0, 256), hex2).join(" "));
  return new Typed(field.number === 17 ? "data set" : "template", `${field.bytes.length} bytes`);
}

/** @param {number} ms */
function instant(ms) {
  return Number.isFinite(ms) && Math.abs(ms) < 8.64e15 ? new Date(ms).toISOString() : `${ms} ms`;
}

/** @param {bigint} value @param {4 | 8} size */
function bits(value, size) {
  const view = new DataView(new ArrayBuffer(size));
  if (size === 4) view.setUint32(0, Number(BigInt.asUintN(32, value)));
  else view.setBigUint64(0, BigInt.asUintN(64, value));
  return view.buffer;
}

/** @param {bigint} value */
function small(value) {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

/** @param {Uint8Array} bytes */
function utf8(bytes) {
  return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
}

/** The fields of a protobuf message, in their order. @param {Uint8Array} bytes @returns {Generator<Field>} */
function* fields(bytes) {
  let at = 0;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const varint = () => {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      if (at >= bytes.length) throw new Error(`ends early, at byte ${at}`);
      const byte = bytes[at++];
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return BigInt.asUintN(64, value);
    }
    throw new Error(`a number longer than ten bytes at byte ${at}`);
  };
  const skip = (/** @type {number} */ size) => {
    if (size > bytes.length - at) throw new Error(`ends early, at byte ${bytes.length}`);
    at += size;
    return at - size;
  };
  while (at < bytes.length) {
    const tag = Number(varint());
    const wire = tag & 7;
    const number = Math.floor(tag / 8);
    if (!number) throw new Error(`field 0 at byte ${at}`);
    const nothing = new Uint8Array(0);
    if (wire === 0) yield { number, wire, value: varint(), bytes: nothing };
    else if (wire === 1) yield { number, wire, value: view.getBigUint64(skip(8), true), bytes: nothing };
    else if (wire === 5) yield { number, wire, value: BigInt(view.getUint32(skip(4), true)), bytes: nothing };
    else if (wire === 2) {
      const size = Number(varint());
      const start = skip(size);
      yield { number, wire, value: 0n, bytes: bytes.subarray(start, start + size) };
    } else throw new Error(`wire type ${wire} at byte ${at}`);
  }
}
