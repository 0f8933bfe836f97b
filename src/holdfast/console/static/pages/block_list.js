/**
 * Who is blocked: until when, why and by whom, and the way back.
 */
import { clientAddress } from "../parts/client_row.js";
import { number, timeOfDay, visible, zoneName } from "../parts/format.js";
import { html } from "../parts/html.js";
import { may } from "../parts/live.js";
import { useCursorRows } from "../parts/rows.js";
import { Table } from "../parts/table.js";
import { Ago, Name, Notice, When } from "../parts/text.js";
import { T } from "../texts.js";
import { askAnyBlock, askUnblock } from "./block_dialogs.js";

/** @typedef {import("./block_dialogs.js").Block} Block */

/** @type {import("../parts/table.js").Column<Block>[]} */
const COLUMNS = [
  { key: "blocked", label: T.blocks.blocked, cell: (block) => html`<span class="tag">${T.blocks.kinds[block.kind]}</span> ${block.kind === "client"
    ? html`<a href=${clientAddress(block.value)} tabindex="-1"><${Name} value=${block.value} /></a>` : html`<${Name} value=${block.value} />`}` },
  { key: "until", label: T.blocks.until, width: "11.5rem", narrow: "6rem", cell: (block) => (block.until_us ? html`<${When} at_us=${block.until_us} />` : T.blocks.noEnd) },
  { key: "reason", label: T.blocks.reason, width: "26%", rank: 2, cell: (block) => html`<${Name} value=${block.reason} limit=${200} plain />` },
  { key: "by", label: T.blocks.by, width: "12%", rank: 2, cell: (block) => html`<${Name} value=${block.by} limit=${60} />` },
  { key: "since", label: T.blocks.since, width: "6rem", rank: 3, number: true, cell: (block) => html`<${Ago} at_us=${block.since_us} />` },
];

/** @param {{onChanged: (said: string) => void}} props */
export function BlockList({ onChanged }) {
  const rows = useCursorRows("blocks", {}, { refresh_s: 5 });
  rows?.version.value;
  const head = rows?.head;
  const changed = (/** @type {string} */ text) => {
    onChanged(text);
    rows?.renew();
  };
  const add = async () => {
    const done = await askAnyBlock();
    if (done) changed(T.blocks.done(number(done.disconnected)));
  };
  const remove = async (/** @type {Block} */ block) => {
    if (await askUnblock(block)) changed(T.blocks.unblocked);
  };
  /** @type {import("../parts/table.js").Column<Block>} */
  const action = { key: "remove", label: html`<span class="visually-hidden">${T.blocks.unblock}</span>`, width: "7rem", number: true,
    cell: (block) => html`<button type="button" class="button quiet" aria-label=${`${T.blocks.unblock} ${T.blocks.kinds[block.kind]} ${visible(block.value, 60)}`} onClick=${() => remove(block)}>${T.blocks.unblock}</button>` };
  return html`
    ${head?.problem && html`<${Notice} kind="bad" role="alert"><strong>${T.blocks.wrong}</strong><pre class="wrong-lines">${head.problem}</pre></${Notice}>`}
    ${head?.kept === false && html`<${Notice} kind="warn">${T.blocks.memory}</${Notice}>`}
    <section class="panel"><div class="panel-head"><h2>${T.blocks.label}</h2><span class="soft small">${T.blocks.hint}</span><span class="spring"></span>
      ${may("operator") && html`<button type="button" class="button" onClick=${add}>${T.blocks.add}</button>`}</div>
    ${rows && html`<${Table} label=${T.blocks.label} rows=${rows} columns=${may("operator") ? [...COLUMNS, action] : COLUMNS} empty=${T.blocks.none} above="20rem"
      foot=${head && html`<span>${T.table.asOf(`${timeOfDay(head.as_of_us)} ${zoneName()}`)}</span>`} />`}</section>`;
}
