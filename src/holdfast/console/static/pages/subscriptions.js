/**
 * Who gets a topic, and which subscriptions lie within a filter, by the broker's own matcher.
 */
import { asCurl, quote } from "../parts/api.js";
import { clientAddress } from "../parts/client_row.js";
import { holdfast } from "../parts/command.js";
import { CopyAs } from "../parts/copy_as.js";
import { NONE, number } from "../parts/format.js";
import { html, useEffect, useMemo, useState } from "../parts/html.js";
import { useQuery } from "../parts/router.js";
import { useCursorRows } from "../parts/rows.js";
import { Table } from "../parts/table.js";
import { Ago, Field, Name } from "../parts/text.js";
import { subscriptionOptions } from "./client_tabs.js";
import { T } from "../texts.js";

/** @param {any} row */
const clientOf = (row) => row.client || row.session_id || "";

/** The earliest message there was, as a time. */
const EARLIEST_US = 1;

/** @param {number | null | undefined} at_us */
const when = (at_us) => (at_us === EARLIEST_US ? T.subscriptions.earliest : at_us ? html`<${Ago} at_us=${at_us} />` : NONE);

/** @type {import("../parts/table.js").Column<any>[]} */
const COLUMNS = [
  { key: "filter", label: T.subscriptions.filter, cell: (row) => html`<${Name} value=${row.filter} />` },
  { key: "who", label: T.subscriptions.who, width: "30%", cell: (row) => (clientOf(row)
    ? html`<a href=${clientAddress(clientOf(row))}><${Name} value=${clientOf(row)} /></a>` : html`<span class="tag">${T.subscriptions.group}</span> <${Name} value=${row.group} />`) },
  { key: "qos", label: T.subscriptions.qos, width: "4rem", narrow: "3.5rem", number: true, cell: (row) => row.qos },
  { key: "since", label: T.subscriptions.since, width: "7rem", rank: 2, cell: (row) => when(row.since_us) },
  { key: "replay", label: T.subscriptions.replay, width: "7rem", rank: 3, cell: (row) => when(row.replayed_us) },
  { key: "members", label: T.subscriptions.members, width: "6rem", number: true, rank: 2, cell: (row) => (row.members ? number(row.members) : NONE) },
  { key: "options", label: T.subscriptions.options, width: "16%", rank: 3, cell: (row) => html`<span class="soft">${subscriptionOptions(row)}</span>` },
];

export function Page() {
  const [query, setQuery] = useQuery({ topic: "", under: "" });
  const [topic, setTopic] = useState(query.topic);
  const [under, setUnder] = useState(query.under);
  useEffect(() => { setTopic(query.topic); setUnder(query.under); }, [query.topic, query.under]);
  const params = useMemo(() => (query.topic ? { topic: query.topic } : { under: query.under }), [query]);
  const asked = Boolean(query.topic || query.under);
  const rows = useCursorRows(asked ? "subscriptions" : null, params, { first: 1000 });
  rows?.version.value;
  const wrong = (/** @type {string} */ name) => (rows?.error?.parameter === name ? rows.error.detail : null);
  const ask = (/** @type {Event} */ event) => {
    event.preventDefault();
    // The field that was changed last is the question.
    setQuery(topic !== query.topic && topic ? { topic, under: "" } : under ? { topic: "", under } : { topic, under: "" }, { push: true });
  };
  return html`<div class="page">
    <div class="page-head"><h1>${T.subscriptions.title}</h1><span class="spring"></span>
      ${asked && html`<${CopyAs} address=${location.href} curl=${asCurl("subscriptions", params)} command=${holdfast("subscriptions", [query.topic ? `--topic=${quote(query.topic)}` : `--under=${quote(query.under)}`])} />`}</div>
    <form class="fields" onSubmit=${ask}>
      <${Field} id="subscriptions-topic" class="wide" mono label=${T.subscriptions.topic} placeholder="plant/1/temp" value=${topic} onInput=${(/** @type {string} */ text) => { setTopic(text); setUnder(""); }} error=${wrong("topic")} />
      <${Field} id="subscriptions-under" class="wide" mono label=${T.subscriptions.under} placeholder="plant/#" value=${under} onInput=${(/** @type {string} */ text) => { setUnder(text); setTopic(""); }} error=${wrong("under")} />
      <button type="submit" class="button primary">${T.subscriptions.ask}</button>
    </form>
    ${asked && rows ? html`<section class="panel"><${Table} label=${T.subscriptions.title} rows=${rows} columns=${COLUMNS} above="16rem" empty=${T.subscriptions.empty} foot=${html`<span>${query.topic ? T.subscriptions.matcher : ""}</span>${rows.ended && rows.head?.more && html`<span class="tag warn">${T.subscriptions.more}</span>`}`} /></section>`
    : html`<p class="panel empty">${T.subscriptions.intro}</p>`}
  </div>`;
}
