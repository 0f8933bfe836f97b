/**
 * The page's address is its state: what can be seen can be sent to somebody.
 *
 * `route` holds the path and the query. A link to a page of this console changes them without a reload.
 */
import { signal, useCallback, useMemo } from "./html.js";

/** @typedef {{path: string, search: string, hash: string}} Route */

/** @returns {Route} */
function here() {
  return { path: location.pathname, search: location.search, hash: location.hash };
}

export const route = signal(here());

addEventListener("popstate", () => {
  route.value = here();
});

/**
 * @param {string} to path with query
 * @param {{replace?: boolean}} [options] replace: no new entry in the browser's history
 */
export function navigate(to, { replace = false } = {}) {
  const before = location.pathname;
  history[replace ? "replaceState" : "pushState"](null, "", to);
  route.value = here();
  if (location.pathname !== before) scrollTo(0, 0);
}

// One listener for all links: those that lead to a page of ours do not reload.
document.addEventListener("click", (event) => {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = /** @type {Element} */ (event.target).closest?.("a[href]");
  if (!(link instanceof HTMLAnchorElement) || link.target || link.hasAttribute("download")) return;
  const to = new URL(link.href);
  if (to.origin !== location.origin || to.pathname.startsWith("/api/") || to.pathname.startsWith("/static/")) return;
  event.preventDefault();
  navigate(to.pathname + to.search + to.hash);
});

/**
 * The segments of a path, decoded; null for one that cannot be decoded.
 * @param {string} path
 * @returns {(string | null)[]}
 */
export function segments(path) {
  return path.split("/").slice(1).map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return null;
    }
  });
}

/**
 * A path with a query. What is null or "" is left out.
 * @param {string} path
 * @param {Record<string, string | number | null | undefined>} [query]
 */
export function link(path, query = {}) {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") params.set(name, String(value));
  }
  const text = params.toString();
  return path + (text ? `?${text}` : "");
}

/**
 * The query as an object, and a function that changes it. Values that equal their default are not in the address;
 * parameters that are not named in `defaults` are left alone.
 *
 *     const [query, setQuery] = useQuery({ q: "", sort: "client" });
 *     setQuery({ q: "press" });                    // the address now ends in ?q=press
 *     setQuery({ sort: "-owed" }, { push: true }); // and Back leads to the view before
 *
 * @template {Record<string, string>} T
 * @param {T} defaults
 * @returns {[T, (patch: Partial<Record<keyof T, string | number | null | undefined>>, options?: {push?: boolean}) => void]}
 */
export function useQuery(defaults) {
  const { search } = route.value;
  const query = useMemo(() => {
    const params = new URLSearchParams(search);
    const result = /** @type {Record<string, string>} */ ({});
    for (const [name, value] of Object.entries(defaults)) result[name] = params.get(name) ?? value;
    return /** @type {T} */ (result);
  }, [search]);
  const set = useCallback((/** @type {any} */ patch, /** @type {{push?: boolean}} */ { push = false } = {}) => {
    const params = new URLSearchParams(location.search);
    for (const [name, value] of Object.entries(patch)) {
      if (value === null || value === undefined || String(value) === (defaults[name] ?? "")) params.delete(name);
      else params.set(name, String(value));
    }
    const text = params.toString();
    navigate(location.pathname + (text ? `?${text}` : ""), { replace: !push });
  }, []);
  return [query, set];
}
