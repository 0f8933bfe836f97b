/**
 * Clients, connected and offline: searched, filtered, sorted. Any number of them.
 */
import { asCurl, quote } from "../parts/api.js";
import { addressText, clientAddress, ClientName, isConnected, owedText, versionText } from "../parts/client_row.js";
import { holdfast } from "../parts/command.js";
import { CopyAs } from "../parts/copy_as.js";
import { NONE, number, timeOfDay, zoneName } from "../parts/format.js";
import { html, useMemo, useState } from "../parts/html.js";
import { may, node } from "../parts/live.js";
import { useTyped } from "../parts/resource.js";
import { link, navigate, useQuery } from "../parts/router.js";
import { useCursorRows } from "../parts/rows.js";
import { Table } from "../parts/table.js";
import { Ago, Choice, Field, Name, Notice } from "../parts/text.js";
import { T } from "../texts.js";
import { BlockList } from "./block_list.js";
import { selectColumn, SelectionBar, useSelection } from "./client_selection.js";

const STATES = [
  { value: "", label: T.clients.all }, { value: "connected", label: T.clients.connected }, { value: "offline", label: T.clients.offline },
  { value: "behind", label: T.clients.behind }, { value: "refused", label: T.clients.refused },
  { value: "blocked", label: T.clients.blocked },
];

/** @type {import("../parts/table.js").Column<any>[]} */
const COLUMNS = [
  { key: "client", label: T.clients.client, sort: "client", cell: (row) => html`<${ClientName} row=${row} />` },
  { key: "user", label: T.clients.user, width: "11%", rank: 2, cell: (row) => html`<${Name} value=${row.user} limit=${60} />` },
  { key: "address", label: T.clients.address, width: "12%", rank: 3, cell: (row) => html`<span title=${addressText(row)}>${row.address || NONE}</span>` },
  { key: "listener", label: T.clients.listener, width: "9%", rank: 3, cell: (row) => row.listener || NONE },
  { key: "version", label: T.clients.version, width: "6%", rank: 3, cell: (row) => (row.version ? versionText(row.version) : NONE) },
  { key: "since", label: T.clients.since, width: "9%", rank: 2, number: true, sort: "since",
    cell: (row) => (isConnected(row) ? html`<${Ago} at_us=${row.since_us} />` : html`<span class="soft">${T.clients.isOffline} <${Ago} at_us=${row.disconnected_us} /></span>`) },
  { key: "subscriptions", label: T.clients.subscriptions, width: "6%", rank: 3, number: true, cell: (row) => number(row.subscriptions) },
  { key: "inflight", label: T.clients.inflight, width: "8%", rank: 2, number: true, sort: "inflight", cell: (row) => number(row.inflight) },
  { key: "owed", label: T.clients.owed, width: "8rem", narrow: "7rem", number: true, sort: "owed", cell: (row) => owedText(row.owed) },
];

/** Orders that the command has: by name, the newest, or the largest. */
const COMMAND_SORTS = new Set(["client", "-since", "-owed", "-inflight"]);

/**
 * The command that lists the same clients in the same order; null if there is none.
 * @param {Record<string, string>} query
 */
function commandOf(query) {
  if (query.state === "offline" || query.state === "refused" || !COMMAND_SORTS.has(query.sort ?? "")) return null;
  return holdfast("clients list", [
    query.q && `--search=${quote(query.q)}`, query.user && `--user=${quote(query.user)}`, query.listener && `--listener=${quote(query.listener)}`,
    query.state === "behind" && "--behind", query.sort !== "client" && `--sort=${query.sort?.replace("-", "")}`]);
}

/** What is to be said of it. @param {Record<string, string>} query @param {string | null} command */
function noteOf(query, command) {
  if (command === null) return [query.state === "offline" ? T.clients.noOffline : T.clients.noOrder];
  return query.state === "" ? [T.clients.connectedAlone] : [];
}

export function Page() {
  const [query, setQuery] = useQuery({ q: "", state: "", user: "", listener: "", sort: "client" });
  const [text, setText] = useTyped(query.q, (q) => setQuery({ q }));
  const params = useMemo(() => ({ q: query.q, state: query.state, user: query.user, listener: query.listener, sort: query.sort }), [query]);
  const blocked = query.state === "blocked";
  const rows = useCursorRows(blocked ? null : "clients", params, { refresh_s: 5 });
  rows?.version.value;
  const selection = useSelection();
  const [said, setSaid] = useState("");
  const loaded = rows?.loaded ?? [];
  const columns = may("operator") ? [selectColumn(selection, loaded), ...COLUMNS] : COLUMNS;
  const choosing = may("operator") ? { isSelected: selection.has, onSelect: selection.toggle } : {};
  const changed = (/** @type {string} */ text) => {
    setSaid(text);
    rows?.renew();
  };
  const head = rows?.head;
  const error = rows?.error;
  const listeners = (node.value?.listeners ?? []).map((/** @type {any} */ one) => one.name);
  const command = blocked ? holdfast("blocks list") : commandOf(query);
  // Connections that were refused have no row: what is known of them are events.
  const choose = (/** @type {string} */ state) => {
    setSaid("");
    if (state === "refused") navigate(link("/events", { reason: "connect_refused", client: query.q }));
    else setQuery({ state }, { push: true });
  };
  return html`<div class="page">
    <div class="page-head"><h1>${T.clients.title}</h1>${head && html`<p role="status">${T.clients.count(number(head.matched), number(head.total))}</p>`}<span class="spring"></span>
      <${CopyAs} address=${location.href} curl=${blocked ? asCurl("blocks") : asCurl("clients", params)} command=${command ?? undefined} notes=${noteOf(query, command)} /></div>
    <div class="fields">
      ${!blocked && html`<${Field} id="clients-q" class="wide" label=${T.clients.search} value=${text} onInput=${setText} error=${error?.parameter === "q" ? error.detail : null} />`}
      <div class="field choice"><span class="label" aria-hidden="true">${T.clients.state}</span><${Choice} label=${T.clients.state} value=${query.state} options=${STATES} onChange=${choose} /></div>
      ${!blocked && listeners.length > 1 && html`<div class="field narrow"><label for="clients-listener">${T.clients.listenerField}</label><select id="clients-listener" value=${query.listener} onChange=${(/** @type {any} */ event) => setQuery({ listener: event.target.value }, { push: true })}>
        <option value="">${T.clients.all}</option>${listeners.map((/** @type {string} */ name) => html`<option key=${name} value=${name}>${name}</option>`)}</select></div>`}
      ${!blocked && query.user && html`<${Field} id="clients-user" class="narrow" label=${T.clients.userField} value=${query.user} onChange=${(/** @type {string} */ user) => setQuery({ user })} />`}
    </div>
    ${said && html`<${Notice} role="status" action=${html`<button type="button" class="button bare" onClick=${() => setSaid("")}>${T.selection.close}</button>`}>${said}</${Notice}>`}
    ${blocked ? html`<${BlockList} onChanged=${setSaid} />` : html`<section class="panel">${may("operator") && html`<${SelectionBar} selection=${selection} loaded=${loaded} onChanged=${changed} />`}
      ${rows && html`<${Table} label=${T.clients.label} rows=${rows} columns=${columns} ...${choosing} sort=${query.sort}
      onSort=${(/** @type {string} */ sort) => setQuery({ sort }, { push: true })} onOpen=${(/** @type {any} */ row) => navigate(clientAddress(row.session_id))} empty=${T.clients.empty} above="16rem"
      foot=${html`<span>${head && T.table.asOf(`${timeOfDay(head.as_of_us)} ${zoneName()}`)}</span><span>${T.clients.bound}</span>${head?.complete === false && html`<span class="tag warn">${T.clients.incomplete}</span>`}`} />`}</section>`}
  </div>`;
}
