/**
 * Clients as lists show them. A row is `ClientRow` of the control socket, or, for a session without a connection, what
 * the history process knows of it: then `since_us` is missing and `disconnected_us` says when it left.
 */
import { duration, NONE, number } from "./format.js";
import { html } from "./html.js";
import { Name } from "./text.js";
import { T } from "../texts.js";

/** 4294967295: a session without end. */
const NEVER = 4_294_967_295;

/**
 * The address of a client's page. Dot segments cannot be part of an address: those two ids lead to a search.
 * @param {string} id
 * @param {string} [query]
 */
export function clientAddress(id, query = "") {
  if (id === "." || id === "..") return `/clients?q=${id}`;
  return `/clients/${encodeURIComponent(id.toWellFormed())}${query}`;
}

/** @param {any} row */
export function isConnected(row) {
  return row.connected ?? Boolean(row.since_us);
}

/** @param {any} row */
export function isBehind(row) {
  return Boolean(row.behind);
}

/** @param {{row: any}} props */
export function ClientName({ row }) {
  const kind = !isConnected(row) ? "off" : isBehind(row) ? "warn" : "good";
  const word = !isConnected(row) ? T.clients.isOffline : isBehind(row) ? T.client.behind : T.client.connected;
  return html`<span class="with-glyph"><span class=${`glyph ${kind}`} aria-hidden="true"></span><span class="visually-hidden">${word}</span>
    <a href=${clientAddress(row.session_id)} tabindex="-1"><${Name} value=${row.session_id} /></a>${row.blocked && html`<span class="tag bad">${T.blocks.tag}</span>`}</span>`;
}

/** @param {any} row */
export function addressText(row) {
  if (!row.address) return NONE;
  return row.port ? `${row.address.includes(":") ? `[${row.address}]` : row.address}:${row.port}` : row.address;
}

/** @param {number | null | undefined} owed */
export function owedText(owed) {
  if (owed === null || owed === undefined) return NONE;
  return owed > 0 ? `≤ ${number(owed)}` : "0";
}

/** @param {number | undefined} version */
export function versionText(version) {
  return version === undefined ? NONE : { 3: "3.1", 4: "3.1.1", 5: "5.0" }[version] ?? String(version);
}

/** @param {number | null | undefined} expiry_s */
export function expiryText(expiry_s) {
  if (expiry_s === null || expiry_s === undefined) return NONE;
  if (expiry_s === 0) return T.client.expiryNow;
  return expiry_s >= NEVER ? T.client.expiryNever : duration(expiry_s);
}
