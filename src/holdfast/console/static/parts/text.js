/**
 * Small pieces that every page uses: names of unknown origin, states, notices, tabs, ages.
 */
import { age, day, NONE, number, pieces, time, timeOfDay, zoneName } from "./format.js";
import { classes, html, useRef } from "./html.js";
import { now_us, tick } from "./live.js";
import { T } from "../texts.js";

/**
 * A client id, topic or user: monospaced, kept together, what cannot be seen as escapes, cut with a sign.
 * @param {{value: string | null | undefined, limit?: number, wrap?: boolean, plain?: boolean}} props plain: not monospaced, for prose
 */
export function Name({ value, limit = 160, wrap = false, plain = false }) {
  if (value === null || value === undefined || value === "") return html`<span class="soft">${NONE}</span>`;
  const { pieces: parts, cut } = pieces(value, limit);
  return html`<bdi class=${classes("name", wrap && "wrap", plain && "plain")}>${parts.map((part) => (part.escape
    ? html`<span class="esc">${part.text}</span>` : part.text))}${cut > 0 && html`<span class="cut">… +${number(cut)}</span>`}</bdi>`;
}

/**
 * A shape and a word.
 * @param {{kind: "good" | "off" | "warn" | "bad" | "old", children?: any}} props
 */
export function State({ kind, children }) {
  return html`<span class=${`state ${kind}`}><span class=${`glyph ${kind}`} aria-hidden="true"></span><span class="word">${children}</span></span>`;
}

/**
 * @param {{kind?: "bad" | "warn" | "old", children?: any, action?: any, role?: string}} props
 */
export function Notice({ kind, children, action, role }) {
  return html`<div class=${classes("notice", kind)} role=${role}>
    ${kind && html`<span class=${`glyph ${kind}`} aria-hidden="true"></span>`}<div>${children}</div><span class="spring"></span>${action}</div>`;
}

/**
 * What an API call answered instead of data. `beside` names parameters whose error stands beside their field.
 * @param {{error: import("./api.js").ApiError | null, again?: () => void, beside?: string[]}} props
 */
export function Problem({ error, again, beside = [] }) {
  if (!error || (error.parameter && beside.includes(error.parameter))) return null;
  const texts = /** @type {Record<number, string>} */ ({ 0: T.problem.noConsole, 403: T.problem.forbidden, 503: T.problem.busy });
  const heading = texts[error.status] ?? T.problem.refused;
  return html`<${Notice} kind=${error.status >= 500 || error.status === 0 ? "bad" : "warn"} role="alert"
    action=${again && html`<button type="button" class="button" onClick=${again}>${T.problem.again}</button>`}>
    <strong>${heading}</strong> <span>${error.detail}</span></${Notice}>`;
}

/**
 * How long ago, with the moment itself as title; moves on by itself.
 * @param {{at_us: number | null | undefined}} props
 */
export function Ago({ at_us }) {
  tick.value;
  if (!at_us) return html`<span class="soft">${NONE}</span>`;
  return html`<time dateTime=${new Date(at_us / 1000).toISOString()} title=${`${time(at_us)} ${zoneName()}`}>${age(at_us, now_us())}</time>`;
}

/**
 * A moment.
 * @param {{at_us: number | null | undefined, precision?: "min" | "s" | "ms" | "us"}} props
 */
export function When({ at_us, precision = "s" }) {
  if (!at_us) return html`<span class="soft">${NONE}</span>`;
  return html`<time class="nowrap" dateTime=${new Date(at_us / 1000).toISOString()}><span class="day">${day(at_us)} </span>${timeOfDay(at_us, precision)}</time>`;
}

/**
 * One of a few values, as buttons that stay pressed.
 * @param {{label: string, value: string, options: {value: string, label: any}[], onChange: (value: string) => void}} props
 */
export function Choice({ label, value, options, onChange }) {
  return html`<div class="tabs" role="group" aria-label=${label}>${options.map((option) => html`<button type="button" key=${option.value}
    class="tab" aria-pressed=${option.value === value} onClick=${() => onChange(option.value)}>${option.label}</button>`)}</div>`;
}

/**
 * Parts of a page, one of them shown. Arrows move between them.
 * @param {{label: string, value: string, tabs: {value: string, label: any}[], onChange: (value: string) => void, children?: any, id: string}} props
 */
export function Tabs({ label, value, tabs, onChange, children, id }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const keys = (/** @type {KeyboardEvent} */ event) => {
    const at = tabs.findIndex((tab) => tab.value === value);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = tabs[(to + tabs.length) % tabs.length];
    if (!next) return;
    onChange(next.value);
    /** @type {HTMLElement | null | undefined} */ (box.current?.querySelector(`[data-tab="${next.value}"]`))?.focus();
  };
  return html`<div>
    <div class="tab-line" role="tablist" aria-label=${label} ref=${box} onKeyDown=${keys}>
      ${tabs.map((tab) => html`<button type="button" role="tab" key=${tab.value} class="tab" id=${`${id}-${tab.value}`} data-tab=${tab.value}
        aria-selected=${tab.value === value} aria-controls=${`${id}-panel`} tabindex=${tab.value === value ? 0 : -1}
        onClick=${() => onChange(tab.value)}>${tab.label}</button>`)}
    </div>
    <div role="tabpanel" id=${`${id}-panel`} aria-labelledby=${`${id}-${value}`}>${children}</div>
  </div>`;
}

/**
 * A field with its label, and the error that names it.
 * @param {{label: string, id: string, value: string, onInput?: (value: string) => void, onChange?: (value: string) => void, error?: string | null,
 *   class?: string, type?: string, placeholder?: string, autocomplete?: string, mono?: boolean, list?: string}} props
 */
export function Field({ label, id, value, onInput, onChange, error, type = "text", placeholder, autocomplete = "off", mono = false, ...rest }) {
  return html`<div class=${classes("field", rest.class)}>
    <label for=${id}>${label}</label>
    <input id=${id} type=${type} value=${value} placeholder=${placeholder} autocomplete=${autocomplete} spellcheck=${false} autocapitalize="none"
      class=${mono ? "mono" : undefined} aria-invalid=${error ? "true" : undefined} aria-describedby=${error ? `${id}-error` : undefined}
      onInput=${onInput && ((/** @type {any} */ event) => onInput(event.target.value))}
      onChange=${onChange && ((/** @type {any} */ event) => onChange(event.target.value))} />
    ${error && html`<p class="error" id=${`${id}-error`}>${error}</p>`}
  </div>`;
}
