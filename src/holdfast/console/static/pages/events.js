/**
 * What was dropped, refused or ended, and why.
 */
import { asCurl, quote } from "../parts/api.js";
import { holdfast } from "../parts/command.js";
import { CopyAs } from "../parts/copy_as.js";
import { number } from "../parts/format.js";
import { html, useMemo, useState } from "../parts/html.js";
import { useTyped } from "../parts/resource.js";
import { useQuery } from "../parts/router.js";
import { Field } from "../parts/text.js";
import { EventsStrip } from "./events_strip.js";
import { EventsTable } from "./events_table.js";
import { T } from "../texts.js";

/** Parts of the range that are counted. */
const BUCKETS = 160;

export function Page() {
  const [query, setQuery] = useQuery({ reason: "", client: "", topic: "", since: "-24h", until: "" });
  const given = { client: query.client, topic: query.topic, since: query.since, until: query.until };
  const [text, setText] = useTyped(JSON.stringify(given), (next) => setQuery(JSON.parse(next)), 300);
  /** @type {typeof given} */
  const typed = JSON.parse(text);
  const params = useMemo(() => ({ reason: query.reason, client: query.client, topic: query.topic, since: query.since, until: query.until }), [query]);
  const counted = useMemo(() => ({ ...params, buckets: BUCKETS }), [params]);
  const [error, setError] = useState(/** @type {any} */ (null));
  const wrong = (/** @type {string} */ name) => (error?.parameter === name ? error.detail : null);
  const options = [query.reason && `--reason=${quote(query.reason)}`, query.client && `--client=${quote(query.client)}`, query.topic && `--topic=${quote(query.topic)}`, `--since=${quote(query.since)}`, query.until && `--until=${quote(query.until)}`];
  const field = (/** @type {"client" | "topic" | "since" | "until"} */ name, /** @type {string} */ size) => html`<${Field} id=${`events-${name}`} class=${size} label=${T.events[name]} value=${typed[name]} placeholder=${name === "until" ? T.events.now : ""}
    onInput=${(/** @type {string} */ value) => setText(JSON.stringify({ ...typed, [name]: value }))} error=${wrong(name)} mono=${name === "topic"} />`;
  const counts = (/** @type {any} */ rows) => {
    if (rows.error !== error) queueMicrotask(() => setError(rows.error));
    const by = Object.entries(rows.head?.counts_by_reason ?? {}).sort((/** @type {any} */ a, /** @type {any} */ b) => b[1] - a[1]);
    const most = /** @type {number} */ (by[0]?.[1] ?? 1);
    const strip = rows.head?.density && html`<${EventsStrip} density=${rows.head.density} chosen=${query.until !== "" || query.since !== "-24h"}
      onRange=${(/** @type {string} */ since, /** @type {string} */ until) => setQuery({ since, until }, { push: true })} />`;
    if (by.length === 0 && !query.reason) return strip;
    return html`${strip}<ul class="reason-bars" aria-label=${T.events.counts}>
      ${query.reason && html`<li><button type="button" class="tab" aria-pressed="false" onClick=${() => setQuery({ reason: "" }, { push: true })}>${T.events.allReasons}</button></li>`}
      ${by.map(([reason, count]) => html`<li key=${reason}><button type="button" class="tab reason" aria-pressed=${reason === query.reason} onClick=${() => setQuery({ reason: reason === query.reason ? "" : reason }, { push: true })}>
        <span>${reason}</span><b>${number(/** @type {number} */ (count))}</b><span class="bar-line" aria-hidden="true"><span style=${{ width: `${Math.max(1, (/** @type {number} */ (count) / most) * 100)}%` }}></span></span></button></li>`)}</ul>`;
  };
  return html`<div class="page">
    <div class="page-head"><h1>${T.events.title}</h1><span class="spring"></span><${CopyAs} address=${location.href} curl=${asCurl("events", params)} command=${holdfast("events", options)} /></div>
    <div class="fields">${field("client", "")}${field("topic", "wide")}${field("since", "")}${field("until", "")}</div>
    <${EventsTable} params=${counted} above="32rem" empty=${query.client ? T.events.emptyClient : T.events.empty} onHead=${counts} />
  </div>`;
}
