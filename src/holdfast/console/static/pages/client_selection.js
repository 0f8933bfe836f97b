/**
 * Clients that were chosen, and what can be done to all of them at once. Each question names how many it meets.
 */
import { asCurl, post } from "../parts/api.js";
import { isConnected } from "../parts/client_row.js";
import { holdfast } from "../parts/command.js";
import { ask } from "../parts/dialog.js";
import { number, visible } from "../parts/format.js";
import { html, useState } from "../parts/html.js";
import { Name } from "../parts/text.js";
import { T } from "../texts.js";
import { blockCommand, BlockFields, blockTerms } from "./block_dialogs.js";

/** The API takes no more at once. */
export const MOST = 1000;
/** Names that a question shows. */
const NAMED = 6;

/**
 * @typedef {object} Selection
 * @property {Map<string, any>} rows by session
 * @property {(row: any) => boolean} has
 * @property {(row: any) => void} toggle
 * @property {(rows: any[], on: boolean) => void} set
 * @property {() => void} clear
 */

/** @returns {Selection} */
export function useSelection() {
  const [rows, setRows] = useState(/** @type {Map<string, any>} */ (new Map()));
  const set = (/** @type {any[]} */ given, /** @type {boolean} */ on) => setRows((old) => {
    const next = new Map(old);
    for (const row of given) {
      if (!on) next.delete(row.session_id);
      else if (next.size < MOST || next.has(row.session_id)) next.set(row.session_id, row);
    }
    return next;
  });
  return { rows, has: (row) => rows.has(row.session_id), toggle: (row) => set([row], !rows.has(row.session_id)), set, clear: () => setRows(new Map()) };
}

/**
 * The column of boxes; that in its head is for the rows that are loaded.
 * @param {Selection} selection
 * @param {any[]} loaded
 * @returns {import("../parts/table.js").Column<any>}
 */
export function selectColumn(selection, loaded) {
  const chosen = loaded.filter(selection.has).length;
  const all = chosen > 0 && chosen === loaded.length;
  return {
    key: "select", width: "2.75rem", narrow: "2.25rem",
    label: html`<input type="checkbox" class="select" aria-label=${T.selection.all(number(loaded.length))} title=${T.selection.all(number(loaded.length))} checked=${all} indeterminate=${chosen > 0 && !all}
      onChange=${() => selection.set(loaded, !all)} />`,
    cell: (row) => html`<input type="checkbox" class="select" tabindex="-1" aria-label=${T.selection.one(visible(row.session_id, 80))} checked=${selection.has(row)} onChange=${() => selection.toggle(row)} />`,
  };
}

/**
 * What can be done to the clients that are chosen.
 * @param {{selection: Selection, loaded: any[], onChanged: (said: string) => void}} props loaded: rows as they are now
 */
export function SelectionBar({ selection, loaded, onChanged }) {
  const count = selection.rows.size;
  if (count === 0) return null;
  const now = new Map(loaded.map((row) => [row.session_id, row]));
  const chosen = [...selection.rows.values()].map((row) => now.get(row.session_id) ?? row);
  const connected = chosen.filter(isConnected);
  const change = async (/** @type {any[]} */ rows, /** @type {string} */ path, /** @type {string} */ verb, /** @type {any} */ texts) => {
    const ids = rows.map((row) => row.session_id);
    const terms = path === "clients/block" ? blockTerms() : null;
    const body = () => ({ ids, ...terms?.value });
    const done = await ask({
      title: texts.title(number(ids.length)),
      subject: html`<ul class="selected-names">${ids.slice(0, NAMED).map((id) => html`<li key=${id}><${Name} value=${id} limit=${60} /></li>`)}
        ${ids.length > NAMED && html`<li class="soft">${T.selection.more(number(ids.length - NAMED))}</li>`}</ul>
        ${terms && html`<${BlockFields} terms=${terms} />`}`,
      effects: [...texts.effects, ...(rows.length < count ? [T.selection.offline(number(count - rows.length))] : [])],
      action: texts.action, danger: texts.danger,
      curl: () => asCurl(path, { expect: ids.length }, { method: "POST", body: body() }),
      command: () => (terms ? blockCommand("client", ids, terms.value) : ids.map((id) => holdfast(verb, [], id)).join("\n")),
      run: () => post(path, body(), { expect: ids.length }),
    });
    if (!done) return;
    selection.clear();
    onChanged(texts.done(number(done.changed)) + (done.missing.length ? ` ${T.selection.missing(number(done.missing.length))}` : ""));
  };
  return html`<div class="selection" role="group" aria-label=${T.selection.label}>
    <strong role="status">${T.selection.count(number(count))}</strong><span class="spring"></span>
    <button type="button" class="button" disabled=${connected.length === 0} onClick=${() => change(connected, "clients/kick", "clients kick", T.selection.kick)}>${T.client.kick} …</button>
    <button type="button" class="button" onClick=${() => change(chosen, "clients/block", "", T.selection.block)}>${T.client.block} …</button>
    <button type="button" class="button danger" onClick=${() => change(chosen, "sessions/end", "sessions end", T.selection.end)}>${T.client.end} …</button>
    <button type="button" class="button quiet" onClick=${selection.clear}>${T.selection.clear}</button>
  </div>`;
}
