/**
 * The fields above the strips: what is looked at, which range, live or not, export and copy as.
 */
import { classes, html, useEffect, useState } from "../parts/html.js";
import { CopyAs } from "../parts/copy_as.js";
import { address } from "../parts/api.js";
import { node } from "../parts/live.js";
import { Field } from "../parts/text.js";
import { number, visible } from "../parts/format.js";
import { commandsOf } from "./time_commands.js";
import { isoShort } from "./time_view.js";

/** @typedef {import("./time_view.js").View} View */
/** @typedef {import("../parts/strip_draw.js").Density} Density */

/**
 * @param {object} props
 * @param {View} props.view
 * @param {string[]} props.zones
 * @param {Record<string, string>} props.errors by parameter
 * @param {(patch: Partial<View>) => void} props.onChange
 */
export function QuestionFields({ view, zones, errors, onChange }) {
  const [draft, setDraft] = useState({ filter: view.filter, client: view.client, payload: view.payload });
  useEffect(() => setDraft({ filter: view.filter, client: view.client, payload: view.payload }), [view.filter, view.client, view.payload]);
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    onChange({ filter: draft.filter.trim() || "#", client: draft.client, payload: draft.payload });
  };
  const field = (/** @type {"filter" | "client" | "payload"} */ name) => ({
    id: `time-${name}`, value: draft[name], error: errors[name] ?? null,
    onInput: (/** @type {string} */ value) => setDraft((old) => ({ ...old, [name]: value })),
  });
  const same = draft.filter === view.filter && draft.client === view.client && draft.payload === view.payload;
  return html`<form class="fields time-fields" onSubmit=${submit} role="search" aria-label="What to look at">
    <${Field} label="topic filter" class="wide" mono placeholder="#" ...${field("filter")} />
    <div class="field narrow"><label for="time-zone">zone</label>
      <select id="time-zone" value=${view.zone} aria-invalid=${errors.zone ? "true" : undefined} aria-describedby=${errors.zone ? "time-zone-error" : undefined}
        onChange=${(/** @type {any} */ event) => onChange({ zone: event.target.value })}>
        <option value="">all</option>
        ${[...new Set([...zones, ...(view.zone ? [view.zone] : [])])].map((name) => html`<option key=${name} value=${name}>${name}</option>`)}
      </select>${errors.zone && html`<p class="error" id="time-zone-error">${errors.zone}</p>`}</div>
    <${Field} label="client" placeholder="any" mono ...${field("client")} />
    <${Field} label="payload" placeholder="text, or $.t > 5" mono ...${field("payload")} />
    <button type="submit" class=${classes("button", !same && "primary")}>Look</button>
  </form>`;
}

const SHORTCUTS = [["-1h", 3600e6, "1 h"], ["-24h", 86_400e6, "24 h"], ["all", 0, "all"]];

/**
 * @param {object} props
 * @param {View} props.view
 * @param {Density | null} props.density
 * @param {import("./time_commands.js").Shown} props.shown
 * @param {string} props.shortcut the one that the range is
 * @param {(name: string) => void} props.onShortcut
 * @param {(live: boolean) => void} props.onLive
 */
export function RangeBar({ view, density, shown, shortcut, onShortcut, onLive }) {
  const { live } = shown;
  const { entries, notes } = commandsOf(view, location.href, node.value, shown);
  return html`<div class="range-bar">
    <div class="tabs" role="group" aria-label="Range">${SHORTCUTS.map(([name, , label]) => html`<button type="button" key=${name} class="tab"
      aria-pressed=${shortcut === name} onClick=${() => onShortcut(String(name))}>${label}</button>`)}</div>
    <button type="button" class=${classes("button", "live-button")} aria-pressed=${live} onClick=${() => onLive(!live)}><span class="live-dot" aria-hidden="true"></span>Live</button>
    <${ExportMenu} view=${view} density=${density} />
    <${CopyAs} more=${entries} notes=${notes} />
  </div>`;
}

/** @param {{view: View, density: Density | null}} props */
function ExportMenu({ view, density }) {
  const [open, setOpen] = useState(false);
  useEffect(() => {
    if (!open) return undefined;
    const close = (/** @type {Event} */ event) => {
      if (!(/** @type {Element} */ (event.target).closest?.(".export"))) setOpen(false);
    };
    const escape = (/** @type {KeyboardEvent} */ event) => {
      if (event.key !== "Escape") return;
      setOpen(false);
      /** @type {HTMLElement | null} */ (document.getElementById("export-button"))?.focus();
    };
    document.addEventListener("pointerdown", close);
    document.addEventListener("keydown", escape);
    return () => {
      document.removeEventListener("pointerdown", close);
      document.removeEventListener("keydown", escape);
    };
  }, [open]);
  const file = (/** @type {string} */ format) => address("history/export", { filter: view.filter, zone: view.zone, from: view.from, to: view.to, client: view.client, format });
  return html`<div class="export">
    <button type="button" class="button quiet" id="export-button" aria-expanded=${open} aria-controls="export-panel" onClick=${() => setOpen(!open)}>Export<span class="caret" aria-hidden="true"></span></button>
    ${open && html`<div class="export-panel" id="export-panel" role="group" aria-label="Export">
      <p><b>${mostText(density)}</b> of <bdi class="mono">${visible(view.filter)}</bdi>, from ${isoShort(view.from ?? 0)} to ${isoShort(view.to ?? 0)}.</p>
      ${view.client && html`<p class="soft small">Only those of the client <bdi class="mono">${visible(view.client, 60)}</bdi>, which are fewer.</p>`}
      ${view.payload && html`<p class="soft small">The search in payloads does not narrow an export.</p>`}
      <p class="export-links"><a class="button" href=${file("jsonl")} download="messages.jsonl">JSON lines</a><a class="button" href=${file("csv")} download="messages.csv">CSV</a><a class="button" href=${file("parquet")} download="messages.parquet">Parquet</a></p>
      <p class="soft small">Parquet needs holdfast[history] where the broker runs. In the shell: holdfast export, under “Copy as”.</p>
    </div>`}
  </div>`;
}

/**
 * The most that a range can hold, in words.
 * @param {Density | null} density
 */
export function mostText(density) {
  if (!density) return "An unknown number of messages";
  const more = density.errors.reduce((sum, error) => sum + error, 0);
  if (density.exact && !density.erased_at_most) return `${number(density.total)} ${density.total === 1 ? "message" : "messages"}`;
  return `At most ${number(density.total + more)} messages`;
}

/**
 * The number of messages of the range, with how good it is.
 * @param {{density: Density | null, busy: boolean}} props
 */
export function Total({ density, busy }) {
  if (!density) return html`<span class="soft">${busy ? "counting …" : ""}</span>`;
  const error = density.errors.reduce((sum, one) => sum + one, 0);
  return html`<span class="total" data-exact=${String(density.exact)}><b>${density.exact ? "" : "about "}${number(density.total)}</b> ${density.total === 1 ? "message" : "messages"},
    ${density.exact ? " exact" : ` ± ${number(error)}, ${busy ? "counting on" : "estimate"}`}
    ${density.erased_at_most > 0 && html`<span class="soft">, of them up to ${number(density.erased_at_most)} erased</span>`}</span>`;
}
