/**
 * The page's view library in one place: elements, hooks, signals.
 *
 * Every other module imports from here, so that a newer version of a vendored file changes one import.
 * A string that is put into `html` is text, never markup.
 */
import htm from "../vendor/htm.js";
import { createPortal, Fragment, h, render } from "../vendor/preact.js";

export const html = htm.bind(h);
export { createPortal, Fragment, h, render };
export {
  useCallback, useEffect, useErrorBoundary, useId, useLayoutEffect, useMemo, useReducer, useRef, useState,
} from "../vendor/hooks.js";
export { batch, computed, effect, signal, untracked, useComputed, useSignal, useSignalEffect } from "../vendor/signals.js";

/** @typedef {import("../vendor/preact.js").Node} Node */

/**
 * Class names from what holds.
 * @param {...(string | false | null | undefined)} names
 */
export function classes(...names) {
  return names.filter(Boolean).join(" ");
}
