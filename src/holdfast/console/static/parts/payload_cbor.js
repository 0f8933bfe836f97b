// A reader of CBOR (RFC 8949) for the payload viewer: bytes to values that the tree can show.
//
// 1. It never reads beyond the bytes, nests at most 64 deep and makes at most 10,000 values: hostile input ends in an error.
// 2. What JSON has no word for becomes a `Typed` value: byte strings, tags, undefined, big numbers, map keys that are no text.

import { hex2 } from "./payload_bytes.js";

export const MAX_DEPTH = 64;
export const MAX_VALUES = 10000;

/** A value with the name of its type beside it, for the tree. */
export class Typed {
  /** @param {string} type @param {unknown} value */
  constructor(type, value) {
    this.type = type;
    this.value = value;
  }
}

/** An ordered list of pairs, for maps whose keys may be anything and may repeat. */
export class Pairs {
  /** @param {[string, unknown][]} entries */
  constructor(entries) {
    this.entries = entries;
  }
}

/** @param {Uint8Array} bytes @returns {unknown} the single item; throws an Error that names the place */
export function decodeCbor(bytes) {
  const reader = new Reader(bytes);
  const value = reader.item(0);
  if (reader.at !== bytes.length) throw new Error(`${bytes.length - reader.at} bytes behind the end of the item`);
  return value;
}

const BREAK = Symbol("break");

class Reader {
  /** @param {Uint8Array} bytes */
  constructor(bytes) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.at = 0;
    this.values = 0;
  }

  /** @param {number} size */
  take(size) {
    if (size > this.bytes.length - this.at) throw new Error(`ends early, at byte ${this.bytes.length}`);
    this.at += size;
    return this.at - size;
  }

  /** The number behind the first byte; null for an indefinite length. @param {number} info @returns {number | bigint | null} */
  argument(info) {
    if (info < 24) return info;
    if (info === 24) return this.bytes[this.take(1)];
    if (info === 25) return this.view.getUint16(this.take(2));
    if (info === 26) return this.view.getUint32(this.take(4));
    if (info === 27) {
      const big = this.view.getBigUint64(this.take(8));
      return big <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(big) : big;
    }
    if (info === 31) return null;
    throw new Error(`reserved length ${info} at byte ${this.at - 1}`);
  }

  /** @param {number} depth @returns {unknown} */
  item(depth) {
    const value = this.itemOrBreak(depth);
    if (value === BREAK) throw new Error(`a break without a beginning at byte ${this.at - 1}`);
    return value;
  }

  /** @param {number} depth @returns {unknown} */
  itemOrBreak(depth) {
    if (depth > MAX_DEPTH) throw new Error(`nested deeper than ${MAX_DEPTH}`);
    if (++this.values > MAX_VALUES) throw new Error(`more than ${MAX_VALUES} values`);
    const first = this.bytes[this.take(1)];
    const major = first >> 5;
    const info = first & 31;
    if (major === 7) return this.simple(info);
    const number = this.argument(info);
    if (number === null && (major < 2 || major === 6)) throw new Error(`no length at byte ${this.at - 1}`);
    if (major === 0) return typeof number === "bigint" ? new Typed("integer", number.toString()) : number;
    if (major === 1) return this.negative(/** @type {number | bigint} */ (number));
    if (major === 2) return new Typed("bytes", hexOf(this.chunks(2, number)));
    if (major === 3) return new TextDecoder("utf-8", { fatal: true }).decode(this.chunks(3, number));
    if (major === 4) return this.array(number, depth);
    if (major === 5) return this.map(number, depth);
    return this.tagged(/** @type {number | bigint} */ (number), depth);
  }

  /** @param {number | bigint} number */
  negative(number) {
    const value = -1n - BigInt(number);
    return value >= BigInt(Number.MIN_SAFE_INTEGER) ? Number(value) : new Typed("integer", value.toString());
  }

  /** A string of known length, or chunks of the same kind up to a break. @param {number} major @param {number | bigint | null} length */
  chunks(major, length) {
    if (length !== null) {
      const size = Number(length);
      const start = this.take(size);
      return this.bytes.subarray(start, start + size);
    }
    const parts = [];
    let total = 0;
    for (;;) {
      const first = this.bytes[this.take(1)];
      if (first === 0xff) break;
      if (first >> 5 !== major || (first & 31) === 31) throw new Error(`a wrong chunk at byte ${this.at - 1}`);
      if (++this.values > MAX_VALUES) throw new Error(`more than ${MAX_VALUES} values`);
      const size = Number(this.argument(first & 31));
      const start = this.take(size);
      parts.push(this.bytes.subarray(start, start + size));
      total += size;
    }
    const joined = new Uint8Array(total);
    let at = 0;
    for (const part of parts) {
      joined.set(part, at);
      at += part.length;
    }
    return joined;
  }

  /** @param {number | bigint | null} length @param {number} depth */
  array(length, depth) {
    /** @type {unknown[]} */
    const list = [];
    for (let i = 0; length === null || i < length; i++) {
      const value = length === null ? this.itemOrBreak(depth + 1) : this.item(depth + 1);
      if (value === BREAK) break;
      list.push(value);
    }
    return list;
  }

  /** @param {number | bigint | null} length @param {number} depth */
  map(length, depth) {
    /** @type {[string, unknown][]} */
    const entries = [];
    for (let i = 0; length === null || i < length; i++) {
      const key = length === null ? this.itemOrBreak(depth + 1) : this.item(depth + 1);
      if (key === BREAK) break;
      entries.push([keyText(key), this.item(depth + 1)]);
    }
    return new Pairs(entries);
  }

  /** @param {number | bigint} tag @param {number} depth */
  tagged(tag, depth) {
    const value = this.item(depth + 1);
    const number = Number(tag);
    if (number === 55799) return value;
    if ((number === 2 || number === 3) && value instanceof Typed && value.type === "bytes" && String(value.value).length <= 512) {
      const magnitude = BigInt(`0x${String(value.value).replaceAll(" ", "") || "0"}`);
      return new Typed("integer", (number === 2 ? magnitude : -1n - magnitude).toString());
    }
    return new Typed(number === 0 || number === 1 ? "time" : `tag ${tag}`, value);
  }

  /** @param {number} info */
  simple(info) {
    if (info === 20) return false;
    if (info === 21) return true;
    if (info === 22) return null;
    if (info === 23) return new Typed("undefined", "undefined");
    if (info === 25) return halfFloat(this.view.getUint16(this.take(2)));
    if (info === 26) return this.view.getFloat32(this.take(4));
    if (info === 27) return this.view.getFloat64(this.take(8));
    if (info === 31) return BREAK;
    return new Typed("simple", info === 24 ? this.bytes[this.take(1)] : info);
  }
}

/** @param {number} bits */
function halfFloat(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1024 + fraction) * 2 ** (exponent - 25);
}

/** @param {unknown} key */
function keyText(key) {
  if (typeof key === "string") return key;
  if (key instanceof Typed) return String(key.value instanceof Typed ? key.value.value : key.value);
  return typeof key === "object" && key !== null ? `(${key instanceof Pairs ? "map" : "list"})` : String(key);
}

/** @param {Uint8Array} bytes */
function hexOf(bytes) {
  return Array.from(bytes, hex2).join(" ");
}
