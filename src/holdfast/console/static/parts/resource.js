/**
 * An answer of the API as a value of a component: asked when its inputs change, given up when they change again.
 */
import { get } from "./api.js";
import { useEffect, useRef, useState } from "./html.js";

/**
 * @template T
 * @typedef {{data: T | null, error: import("./api.js").ApiError | null, loading: boolean, again: () => void}} Resource
 */

/**
 * @param {string | null} path null asks for nothing
 * @param {import("./api.js").Params} [params]
 * @param {{every_s?: number, keep?: boolean}} [options] every_s: ask again; keep: show the old answer until the new one is there
 * @returns {Resource<any>}
 */
export function useResource(path, params = {}, { every_s = 0, keep = true } = {}) {
  const [state, setState] = useState(/** @type {{data: any, error: any, loading: boolean}} */ ({ data: null, error: null, loading: path !== null }));
  const [turn, setTurn] = useState(0);
  const key = JSON.stringify([path, params]);
  const before = useRef(key);
  useEffect(() => {
    if (path === null) {
      setState({ data: null, error: null, loading: false });
      return undefined;
    }
    const control = new AbortController();
    const same = before.current === key;
    before.current = key;
    setState((old) => ({ data: same || keep ? old.data : null, error: same ? old.error : null, loading: true }));
    get(path, params, { signal: control.signal }).then(
      (data) => setState({ data, error: null, loading: false }),
      (error) => {
        if (!control.signal.aborted) setState((old) => ({ data: error.status === 400 || error.status === 404 ? null : old.data, error, loading: false }));
      },
    );
    return () => control.abort();
  }, [key, turn]);
  useEffect(() => {
    if (!every_s || path === null) return undefined;
    const timer = setInterval(() => {
      if (!document.hidden) setTurn((n) => n + 1);
    }, every_s * 1000);
    return () => clearInterval(timer);
  }, [every_s, path === null]);
  return { ...state, again: () => setTurn((n) => n + 1) };
}

/**
 * A value that follows another after a pause, as for a field that searches while one types.
 * @template T
 * @param {T} value
 * @param {number} [pause_ms]
 */
export function useSettled(value, pause_ms = 200) {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), pause_ms);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}

/**
 * What is typed in fields whose values stand in the address: applied after a pause, unless the address has changed
 * meanwhile. Then its values are what the fields show, and what was typed before is not applied any more.
 *
 *     const [text, setText] = useTyped(query.q, (q) => setQuery({ q }));
 *
 * @param {string} applied
 * @param {(value: string) => void} apply
 * @param {number} [pause_ms]
 * @returns {[string, (value: string) => void]}
 */
export function useTyped(applied, apply, pause_ms = 200) {
  // How often the address has changed.
  const changes = useRef({ applied, count: 0 });
  if (changes.current.applied !== applied) changes.current = { applied, count: changes.current.count + 1 };
  const { count } = changes.current;
  const [typed, setTyped] = useState({ value: applied, count });
  const value = typed.count === count ? typed.value : applied;
  // Effects run behind the next frame: until then, the timer of an earlier value may end.
  const shown = useRef("");
  shown.current = JSON.stringify([applied, value]);
  useEffect(() => {
    if (value === applied) return undefined;
    const due = shown.current;
    const timer = setTimeout(() => { if (shown.current === due) apply(value); }, pause_ms);
    return () => clearTimeout(timer);
  }, [applied, value]);
  return [value, (next) => setTyped({ value: next, count })];
}
