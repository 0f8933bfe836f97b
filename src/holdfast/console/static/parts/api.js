/**
 * Calls of the console's API.
 *
 * Rules:
 * 1. A path is relative to /api/v1 ("clients", not "/api/v1/clients"); segments that come from data go through `segment`.
 * 2. Whatever is not 2xx is an `ApiError` with the problem's detail. 401 leads to the login page.
 * 3. A tab has one event stream, however many parts listen, and none while it is hidden.
 */

export const ROOT = "/api/v1/";

/** An answer that is not 2xx, or none at all (status 0). */
export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {string} detail
   * @param {{parameter?: string | null, title?: string, retryAfter_s?: number | null, body?: any}} [more]
   */
  constructor(status, detail, more = {}) {
    super(detail);
    this.name = "ApiError";
    this.status = status;
    this.detail = detail;
    this.title = more.title ?? "";
    /** @type {string | null} the parameter that was wrong */
    this.parameter = more.parameter ?? null;
    /** @type {number | null} */
    this.retryAfter_s = more.retryAfter_s ?? null;
    /** @type {any} the whole problem document */
    this.body = more.body ?? null;
  }
}

/** @typedef {Record<string, string | number | boolean | null | undefined | (string | number)[]>} Params */

/**
 * One segment of a path, from any text. A dot segment cannot be sent by a browser, which takes it out of the address
 * even when it is escaped.
 * @param {string} text
 */
export function segment(text) {
  if (text === "." || text === ".." || text === "") {
    throw new ApiError(400, `A browser cannot put the id ${JSON.stringify(text)} into an address. Use the command line.`);
  }
  // A lone surrogate cannot be encoded: what arrives is the replacement character, and so nothing is found.
  return encodeURIComponent(text.replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "\ufffd"));
}

/**
 * The address of a call. Parameters that are null, undefined or "" are left out, lists are repeated.
 * @param {string} path
 * @param {Params} [params]
 */
export function address(path, params = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value === null || value === undefined || value === "") continue;
    for (const one of Array.isArray(value) ? value : [value]) query.append(name, String(one));
  }
  const text = query.toString();
  return ROOT + path.replace(/^\//, "") + (text ? `?${text}` : "");
}

/** Leaves for the login page, and comes back to this address after it. */
export function toLogin() {
  if (location.pathname === "/login") return;
  const here = location.pathname + location.search;
  location.assign(here === "/" ? "/login" : `/login?next=${encodeURIComponent(here)}`);
}

/**
 * @param {Response} response
 * @returns {Promise<ApiError>}
 */
async function problem(response) {
  /** @type {any} */
  let body = null;
  try {
    body = await response.json();
  } catch {
    body = null;
  }
  // The history process names its errors in a field of their own.
  const inner = body?.error ?? body ?? {};
  const wait = Number(response.headers.get("Retry-After"));
  return new ApiError(response.status, inner.detail || inner.title || response.statusText || `HTTP ${response.status}`, {
    parameter: inner.parameter ?? null, title: inner.title, retryAfter_s: wait > 0 ? wait : null, body,
  });
}

/**
 * @param {string} url
 * @param {RequestInit} options
 * @returns {Promise<Response>}
 */
async function call(url, options) {
  /** @type {Response} */
  let response;
  try {
    response = await fetch(url, { credentials: "same-origin", redirect: "error", ...options });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError(0, "The console does not answer.");
  }
  if (response.ok) return response;
  const error = await problem(response);
  if (response.status === 401) toLogin();
  throw error;
}

/**
 * @param {string} path
 * @param {Params} [params]
 * @param {{signal?: AbortSignal}} [options]
 * @returns {Promise<any>}
 */
export async function get(path, params = {}, { signal } = {}) {
  const response = await call(address(path, params), { headers: { Accept: "application/json" }, signal });
  return response.json();
}

/**
 * @param {string} method
 * @param {string} url
 * @param {unknown} body
 */
async function change(method, url, body) {
  const response = await call(url, {
    method, body: JSON.stringify(body), headers: { "Content-Type": "application/json", "X-Holdfast": "1" },
  });
  const text = await response.text();
  return text ? JSON.parse(text) : {};
}

/**
 * @param {string} path
 * @param {unknown} [body]
 * @param {Params} [params]
 * @returns {Promise<any>}
 */
export function post(path, body = {}, params = {}) {
  return change("POST", address(path, params), body);
}

/**
 * @param {string} path
 * @param {unknown} [body]
 * @returns {Promise<any>}
 */
export function put(path, body = {}) {
  return change("PUT", address(path), body);
}

/**
 * @param {string} path
 * @param {Params} [params]
 * @returns {Promise<any>}
 */
export function del(path, params = {}) {
  return change("DELETE", address(path, params), {});
}

/**
 * Reads an answer of newline-delimited JSON, a line at a time as it arrives. Ends when the answer ends.
 * @param {string} path
 * @param {Params} params
 * @param {(line: any) => void} onLine
 * @param {{signal?: AbortSignal}} [options]
 */
export async function lines(path, params, onLine, { signal } = {}) {
  const response = await call(address(path, params), { signal });
  if (!response.body) return;
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    rest += decoder.decode(value, { stream: !done });
    const parts = rest.split("\n");
    rest = done ? "" : (parts.pop() ?? "");
    for (const part of parts) if (part.trim() && !signal?.aborted) onLine(JSON.parse(part));
    if (done) return;
  }
}

/**
 * @callback OnEvent
 * @param {"stats" | "alarms" | "node" | "jobs" | "connection"} name "connection" is ours: its data is "open" or "lost"
 * @param {any} data
 */

/** @type {Set<OnEvent>} */
const listeners = new Set();
/** @type {EventSource | null} */
let source = null;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let retry;
let pause_ms = 1000;

/**
 * Listens to the tab's event stream, which is open while there is a listener and the tab is visible.
 * @param {OnEvent} onEvent
 * @returns {() => void} ends this listener
 */
export function stream(onEvent) {
  listeners.add(onEvent);
  attend();
  return () => {
    listeners.delete(onEvent);
    attend();
  };
}

/** @type {OnEvent} */
function tell(name, data) {
  for (const listener of [...listeners]) listener(name, data);
}

function attend() {
  const wanted = listeners.size > 0 && !document.hidden;
  if (wanted && !source) open();
  if (!wanted) close();
}

function close() {
  clearTimeout(retry);
  source?.close();
  source = null;
}

function open() {
  clearTimeout(retry);
  const opened = new EventSource(`${ROOT}stream`);
  source = opened;
  opened.addEventListener("open", () => {
    pause_ms = 1000;
    tell("connection", "open");
  });
  for (const name of /** @type {const} */ (["stats", "alarms", "node", "jobs"])) {
    opened.addEventListener(name, (event) => tell(name, JSON.parse(/** @type {MessageEvent} */ (event).data)));
  }
  opened.addEventListener("error", () => {
    tell("connection", "lost");
    // A browser tries again by itself unless the answer was not a stream, as after the end of a login.
    if (opened.readyState !== EventSource.CLOSED || source !== opened) return;
    close();
    retry = setTimeout(attend, pause_ms);
    pause_ms = Math.min(pause_ms * 2, 30_000);
    get("me").catch(() => undefined);
  });
}

document.addEventListener("visibilitychange", attend);

/**
 * The call as a line for a shell.
 * @param {string} path
 * @param {Params} [params]
 * @param {{method?: string, body?: unknown}} [options]
 */
export function asCurl(path, params = {}, { method = "GET", body } = {}) {
  const words = ["curl -sS", "-H \"Authorization: Bearer $HOLDFAST_TOKEN\""];
  if (method !== "GET") {
    words.push(`-X ${method}`, "-H 'X-Holdfast: 1'", "-H 'Content-Type: application/json'", `-d ${quote(JSON.stringify(body ?? {}))}`);
  }
  words.push(quote(location.origin + address(path, params)));
  return words.join(" ");
}

/**
 * A word for a shell, whatever it holds.
 * @param {string} word
 */
export function quote(word) {
  if (/^[A-Za-z0-9_@%+=:,./-]+$/.test(word)) return word;
  // eslint-disable-next-line no-control-regex
  if (!/[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/.test(word)) return `'${word.replaceAll("'", "'\\''")}'`;
  const bytes = new TextEncoder().encode(word);
  const text = [...bytes].map((byte) => {
    if (byte === 0x27 || byte === 0x5c) return `\\${String.fromCharCode(byte)}`;
    return byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : `\\x${byte.toString(16).padStart(2, "0")}`;
  });
  return `$'${text.join("")}'`;
}
