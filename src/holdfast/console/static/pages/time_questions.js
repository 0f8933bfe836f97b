/**
 * The questions of the time machine to the API, as hooks.
 *
 * 1. A new question gives up the one before it.
 * 2. A patient question, as while a moment is dragged or plays, lets the running one end and then asks with what holds by then:
 *    so something is shown on the way, however slow the answers are.
 * 3. An old answer stays until the new one is there, with `busy`: from the moment on at which the question is another one.
 */
import { useEffect, useMemo, useRef, useState } from "../parts/html.js";
import { get, lines } from "../parts/api.js";
import { PAGE } from "./time_view.js";

/** @typedef {import("../parts/api.js").ApiError} ApiError */
/** @typedef {import("../parts/api.js").Params} Params */
/** @typedef {import("../parts/payload_bytes.js").Wire} Wire */
/** @typedef {import("../parts/strip_draw.js").Density} Density */
/**
 * @typedef {object} Message
 * @property {Wire} topic
 * @property {Wire} payload
 * @property {number} bytes
 * @property {number} qos
 * @property {boolean} retain
 * @property {string} client
 * @property {number} at_us
 * @property {number} received_us
 * @property {string} place
 * @property {string} zone
 * @property {Record<string, any>} properties
 */

/**
 * @param {string} path
 * @param {Params | null} params null asks nothing
 * @param {{patient?: boolean, turn?: number}} [options] turn: ask again when it changes
 * @returns {{answer: any, error: ApiError | null, busy: boolean}}
 */
export function useAnswer(path, params, { patient = false, turn = 0 } = {}) {
  const [state, setState] = useState(/** @type {{answer: any, error: ApiError | null, busy: boolean, question: string | null}} */ ({ answer: null, error: null, busy: false, question: null }));
  const key = params && JSON.stringify(params);
  const running = useRef(/** @type {AbortController | null} */ (null));
  const wanted = useRef(/** @type {Params | null} */ (null));
  wanted.current = params;
  useEffect(() => {
    const ask = async () => {
      const asked = wanted.current;
      if (!asked) return;
      const control = new AbortController();
      running.current = control;
      setState((old) => ({ ...old, busy: true }));
      try {
        const answer = await get(path, asked, { signal: control.signal });
        if (running.current === control) setState({ answer, error: null, busy: false, question: JSON.stringify(asked) });
      } catch (error) {
        if (running.current === control) setState({ answer: null, error: /** @type {ApiError} */ (error), busy: false, question: JSON.stringify(asked) });
      }
      if (running.current !== control) return;
      running.current = null;
      if (JSON.stringify(wanted.current) !== JSON.stringify(asked)) ask();
    };
    if (patient && running.current) return;
    running.current?.abort();
    running.current = null;
    if (key) ask();
    else setState({ answer: null, error: null, busy: false, question: null });
  }, [key, turn]);
  useEffect(() => () => running.current?.abort(), []);
  return { ...state, busy: state.busy || state.question !== key };
}

/**
 * The density of a range, finer with every line that arrives.
 * @param {Params | null} params
 * @param {{news?: number, patient?: boolean}} [options] news: counts messages that came; with more of them the same range is asked
 *     for again, once it is answered. patient: a range that moves lets the running question end, unless its filter is another one
 * @returns {{density: Density | null, error: ApiError | null, busy: boolean}}
 */
export function useDensity(params, { news = 0, patient = false } = {}) {
  const [state, setState] = useState(/** @type {{density: Density | null, error: ApiError | null, busy: boolean, question: string | null}} */ ({ density: null, error: null, busy: false, question: null }));
  const key = params && JSON.stringify(params);
  const before = useRef(/** @type {string | null} */ (null));
  const running = useRef(/** @type {AbortController | null} */ (null));
  const wanted = useRef({ params, news });
  wanted.current = { params, news };
  const counted = useRef(news);
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const ask = async () => {
      const asked = wanted.current.params;
      if (!asked) return;
      counted.current = wanted.current.news;
      const control = new AbortController();
      running.current = control;
      const question = JSON.stringify(asked);
      const same = before.current === subject(asked);
      before.current = subject(asked);
      // Bars of the same filter stay until the new ones come; those of another filter would be wrong.
      setState((old) => ({ ...old, density: same ? old.density : null, error: null, busy: true }));
      try {
        await lines("history/density", asked, (density) => setState({ density, error: null, busy: !density.done, question }), { signal: control.signal });
        if (running.current === control) setState((old) => ({ ...old, busy: false, question }));
      } catch (error) {
        const problem = /** @type {ApiError} */ (error);
        if (running.current === control) setState((old) => ({ density: problem.status === 400 ? null : old.density, error: problem, busy: false, question }));
      }
      if (running.current !== control) return;
      running.current = null;
      if (wanted.current.news !== counted.current || JSON.stringify(wanted.current.params) !== JSON.stringify(asked)) ask();
    };
    if (patient && running.current && params && before.current === subject(params)) return;
    running.current?.abort();
    running.current = null;
    ask();
  }, [key, turn]);
  useEffect(() => {
    if (!state.busy && counted.current !== news) setTurn((n) => n + 1);
  }, [news, state.busy]);
  useEffect(() => () => {
    running.current?.abort();
    running.current = null;
  }, []);
  return { ...state, busy: state.busy || state.question !== key };
}

/** What bars are of, whatever their range. @param {Params} params */
const subject = (params) => JSON.stringify([params.filter, params.zone]);

/**
 * @typedef {object} Side
 * @property {string | null} cursor
 * @property {boolean} end nothing more this way
 * @property {boolean} asked
 * @property {string} stopped
 */
/**
 * @typedef {object} Messages
 * @property {Message[]} newer above A, newest first
 * @property {Message[]} older from A on, newest first
 * @property {Side} newerSide
 * @property {Side} olderSide
 * @property {number} looked
 * @property {number | null} of
 * @property {number} lost
 * @property {boolean} busy
 * @property {ApiError | null} error
 * @property {string | null} question what they answer
 */

/** @returns {Messages} */
function nothing() {
  const side = () => ({ cursor: null, end: false, asked: false, stopped: "" });
  return { newer: [], older: [], newerSide: side(), olderSide: side(), looked: 0, of: null, lost: 0, busy: false, error: null, question: null };
}

/**
 * Messages around a moment, a page at a time, both ways.
 * @param {Params | null} params filter, zone, client, payload, from, to, at
 * @param {{patient?: boolean}} [options]
 * @returns {Messages & {more: (way: "older" | "newer") => void}}
 */
export function useMessages(params, { patient = false } = {}) {
  const [state, setState] = useState(nothing);
  const key = params && JSON.stringify(params);
  const running = useRef(/** @type {AbortController | null} */ (null));
  const current = useRef({ params, state });
  current.current = { params, state };

  const ask = useMemo(() => async (/** @type {"older" | "newer"} */ way, /** @type {boolean} */ first) => {
    const asked = current.current.params;
    if (!asked) return;
    const control = new AbortController();
    running.current = control;
    const side = first ? null : current.current.state[`${way}Side`];
    setState((old) => ({ ...old, busy: true }));
    try {
      const answer = await get("history/messages", { ...asked, direction: way, limit: PAGE, cursor: side?.cursor }, { signal: control.signal });
      if (running.current === control) setState((old) => ({ ...added(first ? nothing() : old, way, answer), question: JSON.stringify(asked) }));
    } catch (error) {
      if (running.current === control) setState((old) => ({ ...(first ? nothing() : old), busy: false, error: /** @type {ApiError} */ (error), question: JSON.stringify(asked) }));
    }
    if (running.current !== control) return;
    running.current = null;
    if (JSON.stringify(current.current.params) !== JSON.stringify(asked)) ask("older", true);
  }, []);

  useEffect(() => {
    if (patient && running.current) return;
    running.current?.abort();
    running.current = null;
    if (key) ask("older", true);
    else setState(nothing());
  }, [key]);
  useEffect(() => () => running.current?.abort(), []);
  const more = useMemo(() => (/** @type {"older" | "newer"} */ way) => {
    const { state: now } = current.current;
    if (!running.current && !now[`${way}Side`].end) ask(way, false);
  }, []);
  return { ...state, busy: state.busy || state.question !== key, more };
}

/**
 * @param {Messages} old
 * @param {"older" | "newer"} way
 * @param {any} answer
 * @returns {Messages}
 */
function added(old, way, answer) {
  const side = { cursor: answer.next_cursor, end: answer.next_cursor === null, asked: true, stopped: answer.stopped };
  const common = { looked: old.looked + (answer.looked_through ?? 0), of: answer.of ?? old.of, lost: answer.lost_at_most ?? 0, busy: false, error: null };
  if (way === "older") return { ...old, ...common, older: [...old.older, ...answer.messages], olderSide: side };
  return { ...old, ...common, newer: [...[...answer.messages].reverse(), ...old.newer], newerSide: side };
}

/**
 * New messages, four times a second. At most SHOWN_PER_S of them are shown, the others are counted.
 * @param {Params | null} params null: not live
 */
export function useLive(params) {
  const [state, setState] = useState({ shown: /** @type {Message[]} */ ([]), counted: 0, seen: 0, head_us: 0, error: /** @type {ApiError | null} */ (null) });
  const key = params && JSON.stringify(params);
  useEffect(() => {
    if (!params) {
      setState({ shown: [], counted: 0, seen: 0, head_us: 0, error: null });
      return undefined;
    }
    const control = new AbortController();
    followHead(params, control.signal, (part) => setState((old) => ({
      shown: [...part.shown, ...old.shown].slice(0, KEPT), counted: old.counted + part.counted, seen: old.seen + part.shown.length + part.counted,
      head_us: part.head_us || old.head_us, error: part.error,
    })));
    return () => control.abort();
  }, [key]);
  return state;
}

const POLL_MS = 250;
const SHOWN_PER_S = 200;
const KEPT = 1000;

/**
 * @param {Params} params
 * @param {AbortSignal} signal
 * @param {(part: {shown: Message[], counted: number, head_us: number, error: ApiError | null}) => void} onPart
 */
async function followHead(params, signal, onPart) {
  let at = /** @type {any} */ (params.at ?? "latest");
  /** @type {string | null} */
  let cursor = null;
  let window = 0;
  let budget = SHOWN_PER_S;
  const seen = new Set();
  while (!signal.aborted) {
    const began = performance.now();
    if (began - window >= 1000) {
      window = began;
      budget = SHOWN_PER_S;
    }
    try {
      const answer = await get("history/messages", { ...params, at, direction: "newer", limit: 1000, cursor }, { signal });
      const fresh = answer.messages.filter((/** @type {Message} */ one) => !seen.has(one.place));
      seen.clear();
      for (const one of answer.messages) seen.add(one.place);
      const shown = fresh.slice(Math.max(0, fresh.length - budget)).reverse();
      budget -= shown.length;
      cursor = answer.next_cursor;
      // Behind the newest message that was read; before the first one, where the log ended when it was asked.
      if (!cursor) at = answer.messages.at(-1)?.at_us ?? (at === "latest" ? answer.as_of_us : at);
      if (fresh.length || answer.as_of_us) onPart({ shown, counted: fresh.length - shown.length, head_us: answer.as_of_us ?? 0, error: null });
    } catch (error) {
      if (signal.aborted) return;
      onPart({ shown: [], counted: 0, head_us: 0, error: /** @type {ApiError} */ (error) });
    }
    await pause(Math.max(0, POLL_MS - (performance.now() - began)), signal);
  }
}

/** @param {number} ms @param {AbortSignal} signal @returns {Promise<void>} */
function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    }, { once: true });
  });
}
