/**
 * Events as rows, each with ways on: explain, client, the moment in the time machine.
 */
import { clientAddress } from "../parts/client_row.js";
import { number, toText } from "../parts/format.js";
import { html } from "../parts/html.js";
import { link } from "../parts/router.js";
import { useCursorRows } from "../parts/rows.js";
import { Table } from "../parts/table.js";
import { Name, When } from "../parts/text.js";
import { T } from "../texts.js";

const SERIOUS = new Set(["damaged", "lake_away", "no_room_to_store", "not_stored", "queues_away", "queue_unreadable"]);

/** When an event happened, whatever the answer calls it. @param {any} event */
const at = (event) => event.at_us ?? event.time_us;

/** Explain asks from a minute before, and the moment is that of the first message that the event is about. @param {any} event */
function ways(event) {
  const topic = toText(event.topic);
  const client = event.client && !event.client.startsWith("$share/") ? event.client : "";
  return html`<span class="ways">
    ${client && topic && html`<a href=${clientAddress(client, link("", { tab: "explain", filter: topic, since: String(at(event) - 60_000_000) }))}>${T.events.explain}</a>`}
    <a class=${client && topic ? "spare" : undefined} href=${link("/time", { f: topic || "#", at: event.from_us || at(event) })}>${T.events.moment}</a></span>`;
}

/** @type {import("../parts/table.js").Column<any>[]} */
const COLUMNS = [
  { key: "at", label: T.events.at, width: "11.75rem", narrow: "5.75rem", cell: (event) => html`<${When} at_us=${at(event)} />` },
  { key: "reason", label: T.events.reasonColumn, width: "9.5rem", cell: (event) => html`<span class=${SERIOUS.has(event.reason) ? "tag bad" : "tag"}>${event.reason}</span>` },
  { key: "client", label: T.events.clientColumn, width: "16%", rank: 2, cell: (event) => (event.client && !event.client.startsWith("$share/") ? html`<a href=${clientAddress(event.client)}><${Name} value=${event.client} /></a>` : html`<${Name} value=${event.client} />`) },
  { key: "topic", label: T.events.topicColumn, rank: 2, cell: (event) => (event.client || event.topic ? html`<${Name} value=${toText(event.topic)} />` : html`<span class="soft">${T.events.merged}</span>`) },
  { key: "count", label: T.events.count, width: "4.5rem", number: true, rank: 2, cell: (event) => (event.count === undefined ? "" : `×${number(event.count)}`) },
  { key: "detail", label: T.events.detail, width: "19%", rank: 3, cell: (event) => html`<span title=${event.detail}><${Name} plain value=${event.detail} limit=${120} /></span>` },
  { key: "go", label: T.events.go, width: "10rem", narrow: "5.5rem", cell: ways },
];

/**
 * @param {{params: import("../parts/api.js").Params, withClient?: boolean, above?: string, empty?: string, onHead?: (rows: import("../parts/rows.js").CursorRows<any>) => any}} props
 */
export function EventsTable({ params, withClient = true, above, empty = T.events.empty, onHead }) {
  const rows = useCursorRows("events", params, { fields: ["items", "events"], refresh_s: 5 });
  rows?.version.value;
  if (!rows) return null;
  const columns = withClient ? COLUMNS : COLUMNS.filter((column) => column.key !== "client");
  return html`<div>${onHead?.(rows)}<section class=${withClient ? "panel" : ""}><${Table} label=${T.events.label} rows=${rows} columns=${columns} above=${above} empty=${empty} /></section></div>`;
}
