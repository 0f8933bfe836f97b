/**
 * A strip of time on a canvas, with handles that are sliders.
 *
 * drag: range · click: moment · shift and click: second moment · wheel: zoom around the pointer · arrows on a handle: step.
 * The canvas is for eyes and pointers. What it shows is said to others by the sliders and by the table (`BucketTable`).
 * It is drawn again only when something that is drawn has changed.
 */
import { classes, html, useEffect, useLayoutEffect, useRef, useState } from "./html.js";
import { duration, number, time, timeOfDay, timeZone } from "./format.js";
import { drawStrip, paletteOf } from "./strip_draw.js";
import { clamp, keyStep, rounded, toTime, toX, zoomed } from "./strip_scale.js";

/** @typedef {import("./strip_scale.js").Range} Range */
/** @typedef {import("./strip_draw.js").Density} Density */
/** @typedef {import("./strip_draw.js").Mark} Mark */
/**
 * @typedef {object} Handle
 * @property {string} id
 * @property {string} label
 * @property {string} sign shown on the handle
 * @property {number} value
 * @property {number} min
 * @property {number} max
 * @property {(at_us: number, settled: boolean) => void} onChange settled: the pointer or key was let go
 */

/** A move of fewer pixels is a click. */
const DRAG_PX = 4;

/**
 * @param {object} props
 * @param {string} props.name for tests and styles: "whole" or "range"
 * @param {string} props.label
 * @param {Range} props.view
 * @param {Range} props.bounds how far zooming and dragging may go
 * @param {Density | null} props.density
 * @param {Mark[]} [props.marks]
 * @param {number[]} [props.hits]
 * @param {Range | null} [props.window]
 * @param {Handle[]} props.handles
 * @param {(range: Range) => void} props.onRange
 * @param {(at_us: number, second: boolean) => void} [props.onMoment]
 * @param {(range: Range) => void} [props.onZoom] without it the wheel scrolls the page
 * @param {(density: Density, index: number) => string} [props.describe] what a bucket holds, in words
 */
export function Strip({ name, label, view, bounds, density, marks = [], hits = [], window = null, handles, onRange, onMoment, onZoom, describe = bucketText }) {
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const [size, setSize] = useState({ width: 0, height: 0, turn: 0 });
  const [hover, setHover] = useState(/** @type {number | null} */ (null));
  const [selection, setSelection] = useState(/** @type {Range | null} */ (null));
  const zone = timeZone.value;

  useLayoutEffect(() => watchSize(/** @type {HTMLElement} */ (canvas.current), setSize), []);
  useLayoutEffect(() => {
    const element = canvas.current;
    if (!element || !size.width) return;
    const ratio = globalThis.devicePixelRatio || 1;
    const wide = Math.round(size.width * ratio);
    const tall = Math.round(size.height * ratio);
    if (element.width !== wide) element.width = wide;
    if (element.height !== tall) element.height = tall;
    const ctx = /** @type {CanvasRenderingContext2D} */ (element.getContext("2d"));
    const font = `11px ${getComputedStyle(element).fontFamily}`;
    drawStrip(ctx, size.width, size.height, ratio, { view, density, marks, hits, window, selection, hover_us: hover }, paletteOf(element), font);
    element.dataset.drawn = density ? (density.exact ? "exact" : "estimate") : "nothing";
  }, [size, view.from, view.to, density, marks, hits, window?.from, window?.to, selection, hover, zone]);

  // Listeners read what holds now, without being attached again.
  const now = useRef({ view, bounds, onRange, onMoment, onZoom });
  now.current = { view, bounds, onRange, onMoment, onZoom };
  useEffect(() => {
    const element = /** @type {HTMLElement} */ (canvas.current);
    return attend(element, now, setHover, setSelection);
  }, []);

  return html`<div class=${classes("strip", `strip-${name}`)} ref=${box} role="group" aria-label=${label}>
    <canvas ref=${canvas} class="strip-canvas" aria-hidden="true" data-strip=${name}></canvas>
    ${handles.map((handle) => html`<${StripHandle} key=${handle.id} handle=${handle} view=${view} width=${size.width} strip=${name} />`)}
    ${hover !== null && !selection && html`<${Tip} at=${hover} view=${view} width=${size.width} density=${density} marks=${marks} describe=${describe} />`}
    ${selection && html`<${SelectionTip} selection=${selection} view=${view} width=${size.width} />`}
  </div>`;
}

/**
 * Tells the size of an element, again when it, the device pixels or the theme change.
 * @param {HTMLElement} element
 * @param {(update: (before: {turn: number}) => {width: number, height: number, turn: number}) => void} setSize
 */
function watchSize(element, setSize) {
  const measure = () => setSize((before) => ({ width: element.clientWidth, height: element.clientHeight, turn: before.turn + 1 }));
  const sizes = new ResizeObserver(measure);
  const themes = new MutationObserver(measure);
  sizes.observe(element);
  themes.observe(document.documentElement, { attributes: true });
  measure();
  return () => {
    sizes.disconnect();
    themes.disconnect();
  };
}

/**
 * @param {HTMLElement} element
 * @param {{current: {view: Range, bounds: Range, onRange: (r: Range) => void, onMoment?: (at: number, second: boolean) => void, onZoom?: (r: Range) => void}}} now
 * @param {(at: number | null) => void} setHover
 * @param {(range: Range | null) => void} setSelection
 */
function attend(element, now, setHover, setSelection) {
  /** @type {{id: number, x: number, moved: boolean} | null} */
  let press = null;
  const place = (/** @type {MouseEvent} */ event) => event.clientX - element.getBoundingClientRect().left;
  const at = (/** @type {number} */ x) => rounded(now.current.view, element.clientWidth, toTime(now.current.view, element.clientWidth, clamp(x, 0, element.clientWidth)));
  const picked = (/** @type {PointerEvent} */ event) => {
    const [from, to] = [at(/** @type {any} */ (press).x), at(place(event))].sort((a, b) => a - b);
    return { from, to };
  };
  const down = (/** @type {PointerEvent} */ event) => {
    if (event.button !== 0) return;
    press = { id: event.pointerId, x: place(event), moved: false };
    element.setPointerCapture(event.pointerId);
  };
  const move = (/** @type {PointerEvent} */ event) => {
    if (press && press.id === event.pointerId) {
      press.moved ||= Math.abs(place(event) - press.x) >= DRAG_PX;
      if (press.moved) setSelection(picked(event));
      return;
    }
    setHover(toTime(now.current.view, element.clientWidth, place(event)));
  };
  const up = (/** @type {PointerEvent} */ event) => {
    if (!press || press.id !== event.pointerId) return;
    const range = picked(event);
    const { moved } = press;
    press = null;
    setSelection(null);
    if (moved && range.to > range.from) now.current.onRange(range);
    else if (!moved) now.current.onMoment?.(at(place(event)), event.shiftKey);
  };
  const cancel = () => {
    press = null;
    setSelection(null);
  };
  const leave = () => setHover(null);
  const keys = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Escape" && press) cancel();
  };
  const wheel = (/** @type {WheelEvent} */ event) => {
    const { view, bounds, onZoom } = now.current;
    if (!onZoom) return;
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      const shift = (event.deltaX / element.clientWidth) * (view.to - view.from);
      onZoom({ from: Math.round(view.from + shift), to: Math.round(view.to + shift) });
      return;
    }
    const around = toTime(view, element.clientWidth, place(event));
    onZoom(zoomed(view, around, Math.exp(clamp(event.deltaY, -240, 240) / 400), bounds));
  };
  /** @type {[string, any][]} */
  const listeners = [["pointerdown", down], ["pointermove", move], ["pointerup", up], ["pointercancel", cancel], ["pointerleave", leave], ["wheel", wheel]];
  for (const [type, listener] of listeners) element.addEventListener(type, listener, { passive: type !== "wheel" });
  addEventListener("keydown", keys);
  return () => {
    for (const [type, listener] of listeners) element.removeEventListener(type, listener);
    removeEventListener("keydown", keys);
  };
}

/** @param {{handle: Handle, view: Range, width: number, strip: string}} props */
function StripHandle({ handle, view, width, strip }) {
  const grip = useRef(false);
  if (!width) return null;
  // A handle outside of the view stays at the edge, so that the keyboard reaches it.
  const outside = handle.value < view.from || handle.value > view.to;
  const set = (/** @type {number} */ at_us, /** @type {boolean} */ settled) => handle.onChange(clamp(Math.round(at_us), handle.min, handle.max), settled);
  const keys = (/** @type {KeyboardEvent} */ event) => {
    const step = keyStep(view) * (event.shiftKey ? 10 : 1);
    const to = {
      ArrowRight: handle.value + step, ArrowUp: handle.value + step, ArrowLeft: handle.value - step, ArrowDown: handle.value - step,
      PageUp: handle.value + step * 10, PageDown: handle.value - step * 10, Home: handle.min, End: handle.max,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    set(to, true);
  };
  const point = (/** @type {PointerEvent} */ event) => {
    const host = /** @type {HTMLElement} */ (/** @type {HTMLElement} */ (event.currentTarget).parentElement);
    return rounded(view, width, toTime(view, width, clamp(event.clientX - host.getBoundingClientRect().left, 0, width)));
  };
  return html`<div class=${classes("strip-handle", `strip-handle-${handle.id}`, outside && "strip-handle-outside")}
    role="slider" tabindex="0" data-handle=${`${strip}-${handle.id}`}
    aria-label=${handle.label} aria-orientation="horizontal"
    aria-valuemin=${handle.min} aria-valuemax=${handle.max} aria-valuenow=${handle.value} aria-valuetext=${time(handle.value, "ms")}
    style=${{ left: `${clamp(toX(view, width, handle.value), 0, width)}px` }}
    onKeyDown=${keys}
    onPointerDown=${(/** @type {PointerEvent} */ event) => {
      if (event.button !== 0) return;
      grip.current = true;
      /** @type {HTMLElement} */ (event.currentTarget).setPointerCapture(event.pointerId);
    }}
    onPointerMove=${(/** @type {PointerEvent} */ event) => { if (grip.current) set(point(event), false); }}
    onPointerUp=${(/** @type {PointerEvent} */ event) => {
      if (grip.current) set(point(event), true);
      grip.current = false;
    }}
    onPointerCancel=${() => { grip.current = false; }}><span class="strip-sign" aria-hidden="true">${handle.sign}</span></div>`;
}

/**
 * What a bucket holds, in words.
 * @param {Density} density
 * @param {number} index
 */
export function bucketText(density, index) {
  const count = density.counts[index] ?? 0;
  const error = density.errors[index] ?? 0;
  if (error > 0) return `about ${number(count)} ± ${number(error)} messages, an estimate`;
  return `${number(count)} ${count === 1 ? "message" : "messages"}`;
}

/** @param {{at: number, view: Range, width: number, density: Density | null, marks: Mark[], describe: (density: Density, index: number) => string}} props */
function Tip({ at, view, width, density, marks, describe }) {
  const near = ((view.to - view.from) / Math.max(1, width)) * 7;
  const close = marks.filter((mark) => Math.abs(mark.at_us - at) <= near).slice(0, 4);
  const index = density ? Math.floor((at - density.from_us) / density.step_us) : -1;
  const held = density && index >= 0 && index < density.counts.length ? density : null;
  const from = held ? held.from_us + index * held.step_us : at;
  const gone = density?.gaps.some(([a, b]) => at >= a && at < b);
  const lost = density && density.lost_before_us !== null && density.lost_at_most > 0 && at < density.lost_before_us;
  return html`<div class="strip-tip" aria-hidden="true" style=${tipPlace(toX(view, width, at), width)}>
    <b>${timeSpan(from, held ? Math.min(from + held.step_us, held.to_us) : from)}</b>
    ${lost ? html`<span>taken by retention: at most ${number(density.lost_at_most)} messages before ${time(density.lost_before_us)}</span>`
      : gone ? html`<span>the broker did not run</span>`
        : held && html`<span>${describe(held, index)}</span>`}
    ${held && held.erased_at_most > 0 && (held.counts[index] ?? 0) > 0 && html`<span>of the whole range up to ${number(held.erased_at_most)} are erased</span>`}
    ${close.map((mark) => html`<span class="strip-tip-mark">${mark.text}</span>`)}
  </div>`;
}

/** @param {{selection: Range, view: Range, width: number}} props */
function SelectionTip({ selection, view, width }) {
  return html`<div class="strip-tip" aria-hidden="true" style=${tipPlace(toX(view, width, selection.to), width)}>
    <b>${timeSpan(selection.from, selection.to)}</b><span>${duration((selection.to - selection.from) / 1e6)}</span></div>`;
}

/** @param {number} x @param {number} width */
function tipPlace(x, width) {
  return x > width / 2 ? { right: `${width - x + 12}px` } : { left: `${x + 12}px` };
}

/** @param {number} from @param {number} to */
export function timeSpan(from, to) {
  const fine = to - from < 2e6 ? "ms" : "s";
  return to > from ? `${time(from, fine)} – ${timeOfDay(to, fine)}` : time(from, fine);
}

/**
 * The buckets of a strip as a table, for whoever does not see the canvas.
 * @param {{density: Density, caption: string, what?: string}} props what: the things that are counted
 */
export function BucketTable({ density, caption, what = "messages" }) {
  const rows = density.counts.map((count, i) => ({ count, i })).filter(({ count, i }) => count || density.errors[i]);
  return html`<div class="bucket-table" tabindex="0" role="region" aria-label=${caption}>
    <table><caption>${caption}. Steps of ${duration(density.step_us / 1e6)}; steps without ${what} are left out.</caption>
      <thead><tr><th scope="col">from</th><th scope="col">${what}</th><th scope="col">how good</th></tr></thead>
      <tbody>${rows.map(({ count, i }) => html`<tr key=${i}><td>${time(density.from_us + i * density.step_us, density.step_us < 1e6 ? "ms" : "s")}</td>
        <td class="number">${number(count)}</td><td>${density.errors[i] ? `± ${number(density.errors[i])}, estimate` : "exact"}</td></tr>`)}</tbody>
    </table></div>`;
}
