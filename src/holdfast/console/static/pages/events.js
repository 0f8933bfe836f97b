/**
 * What was dropped, refused or ended, and why.
 */
import { asCurl, quote } from "../parts/api.js";
import { CopyAs } from "../parts/copy_as.js";
import { number } from "../parts/format.js";
import { html, useEffect, useMemo, useState } from "../parts/html.js";
import { useSettled } from "../parts/resource.js";
import { useQuery } from "../parts/router.js";
import { Field } from "../parts/text.js";
import { EventsTable } from "./events_table.js";
import { T } from "../texts.js";

export function Page() {
  const [query, setQuery] = useQuery({ reason: "", client: "", topic: "", since: "-24h" });
  const [typed, setTyped] = useState({ client: query.client, topic: query.topic, since: query.since });
  const settled = useSettled(JSON.stringify(typed), 300);
  useEffect(() => {
    const next = JSON.parse(settled);
    if (next.client !== query.client || next.topic !== query.topic || next.since !== query.since) setQuery(next);
  }, [settled]);
  useEffect(() => {
    setTyped((old) => (old.client === query.client && old.topic === query.topic && old.since === query.since ? old : { client: query.client, topic: query.topic, since: query.since }));
  }, [query.client, query.topic, query.since]);
  const params = useMemo(() => ({ reason: query.reason, client: query.client, topic: query.topic, since: query.since }), [query]);
  const [error, setError] = useState(/** @type {any} */ (null));
  const wrong = (/** @type {string} */ name) => (error?.parameter === name ? error.detail : null);
  const command = ["holdfast events", query.reason && `--reason ${query.reason}`, query.client && `--client ${quote(query.client)}`, query.topic && `--topic ${quote(query.topic)}`, `--since ${quote(query.since)}`].filter(Boolean).join(" ");
  const field = (/** @type {"client" | "topic" | "since"} */ name, /** @type {string} */ size) => html`<${Field} id=${`events-${name}`} class=${size} label=${T.events[name]} value=${typed[name]}
    onInput=${(/** @type {string} */ value) => setTyped({ ...typed, [name]: value })} error=${wrong(name)} mono=${name === "topic"} />`;
  const counts = (/** @type {any} */ rows) => {
    if (rows.error !== error) queueMicrotask(() => setError(rows.error));
    const by = Object.entries(rows.head?.counts_by_reason ?? {}).sort((/** @type {any} */ a, /** @type {any} */ b) => b[1] - a[1]);
    const most = /** @type {number} */ (by[0]?.[1] ?? 1);
    if (by.length === 0 && !query.reason) return null;
    return html`<ul class="reason-bars" aria-label=${T.events.counts}>
      ${query.reason && html`<li><button type="button" class="tab" aria-pressed="false" onClick=${() => setQuery({ reason: "" }, { push: true })}>${T.events.allReasons}</button></li>`}
      ${by.map(([reason, count]) => html`<li key=${reason}><button type="button" class="tab reason" aria-pressed=${reason === query.reason} onClick=${() => setQuery({ reason: reason === query.reason ? "" : reason }, { push: true })}>
        <span>${reason}</span><b>${number(/** @type {number} */ (count))}</b><span class="bar-line" aria-hidden="true"><span style=${{ width: `${Math.max(1, (/** @type {number} */ (count) / most) * 100)}%` }}></span></span></button></li>`)}</ul>`;
  };
  return html`<div class="page">
    <div class="page-head"><h1>${T.events.title}</h1><span class="spring"></span><${CopyAs} address=${location.href} curl=${asCurl("events", params)} command=${command} /></div>
    <div class="fields">${field("client", "")}${field("topic", "wide")}${field("since", "narrow")}</div>
    <${EventsTable} params=${params} above="21rem" onHead=${counts} />
  </div>`;
}
