/**
 * The parts of a client's page that show lists: queue, in flight, subscriptions, events, explain.
 */
import { asCurl, get, quote, segment } from "../parts/api.js";
import { holdfast } from "../parts/command.js";
import { CopyAs } from "../parts/copy_as.js";
import { bytes, iso, number, time, toText } from "../parts/format.js";
import { html, useEffect, useState } from "../parts/html.js";
import { may } from "../parts/live.js";
import { Payload } from "../parts/payload.js";
import { useResource } from "../parts/resource.js";
import { link } from "../parts/router.js";
import { Field, Name, Notice, Problem, State, When } from "../parts/text.js";
import { EventsTable } from "./events_table.js";
import { T } from "../texts.js";

/** A topic as the API sends it: a text, or {text} or {base64}. @param {any} topic */
const topicText = (topic) => toText(topic);

/** Messages of a queue that one question brings. */
export const QUEUE_PAGE = 100;

/** @param {{id: string}} props */
export function QueueTab({ id }) {
  const allowed = may("reader");
  const [open, setOpen] = useState(/** @type {string | null} */ (null));
  const path = `sessions/${segment(id)}/queue`;
  const { data, error, loading, again } = useResource(allowed ? path : null, { limit: QUEUE_PAGE });
  // Pages behind the first one.
  const [further, setFurther] = useState(/** @type {{messages: any[], cursor: string | null, error: any, busy: boolean} | null} */ (null));
  const next = further ? further.cursor : data?.next_cursor ?? null;
  const goOn = async () => {
    const known = { messages: further?.messages ?? [], cursor: next };
    setFurther({ ...known, error: null, busy: true });
    try {
      const page = await get(path, { limit: QUEUE_PAGE, cursor: next });
      setFurther({ messages: [...known.messages, ...page.messages], cursor: page.next_cursor, error: null, busy: false });
    } catch (problem) {
      setFurther({ ...known, error: problem, busy: false });
    }
  };
  if (!allowed) return html`<p class="tab-body soft">${T.client.readerNeeded}</p>`;
  const messages = [...(data?.messages ?? []), ...(further?.messages ?? [])];
  return html`<div>
    <${Problem} error=${error ?? further?.error} again=${error ? again : goOn} />
    ${data && messages.length === 0 && html`<p class="empty">${T.client.queueEmpty}</p>`}
    ${!data && loading && html`<p class="empty">${T.table.loading}</p>`}
    ${messages.length > 0 && html`<div class="list-box"><table class="list"><thead><tr><th scope="col">${T.client.received}</th><th scope="col">${T.client.topic}</th><th scope="col">${T.client.qos}</th><th scope="col">${T.client.place}</th><th scope="col" class="number">${T.client.bytes}</th><th scope="col">${T.client.payload}</th></tr></thead>
      <tbody>${messages.map((/** @type {any} */ message) => html`<tr key=${message.place}><td><${When} at_us=${message.received_us ?? message.at_us} precision="ms" /></td>
        <td><a href=${link("/time", { f: topicText(message.topic), at: message.at_us })}><${Name} value=${topicText(message.topic)} wrap /></a></td><td>${message.qos}</td><td class="mono nowrap">${message.place}</td><td class="number">${bytes(message.bytes)}</td>
        <td>${open === message.place
          ? html`<${Payload} payload=${message.payload} size=${message.bytes} topic=${topicText(message.topic)} contentType=${message.properties?.content_type} />`
          : html`<button type="button" class="button bare small" aria-expanded="false" onClick=${() => setOpen(message.place)}><${Name} value=${toText(message.payload)} limit=${40} /></button>`}</td></tr>`)}</tbody></table></div>
    <div class="rows-foot"><span role="status">${number(messages.length)}${next ? "+" : ""}, ${data.exact ? T.client.queueExact : T.client.queueBound}</span>
      ${next && html`<button type="button" class="button quiet" disabled=${further?.busy} onClick=${goOn}>${T.client.queueMore}</button>`}</div>`}
  </div>`;
}

/** @param {{client: any}} props */
export function InflightTab({ client }) {
  if (client.inflight.length === 0) return html`<p class="empty">${T.client.inflightEmpty}</p>`;
  return html`<div class="list-box"><table class="list"><thead><tr><th scope="col" class="number">${T.client.packet}</th><th scope="col">${T.client.topic}</th><th scope="col">${T.client.qos}</th><th scope="col">${T.client.waitsFor}</th></tr></thead>
    <tbody>${client.inflight.map((/** @type {any} */ one) => html`<tr key=${one.packet_id}><td class="number">${one.packet_id}</td><td><${Name} value=${topicText(one.topic)} wrap /></td><td>${one.qos}</td><td>${one.waits_for ?? one.state}</td></tr>`)}</tbody></table>
    ${client.inflight.length < client.inflightCount && html`<div class="rows-foot">${T.client.shown(number(client.inflight.length), number(client.inflightCount))}</div>`}</div>`;
}

/** @param {any} one */
export function subscriptionOptions(one) {
  return [one.no_local && "no local", one.retain_as_published && "retain as published", one.retain_handling ? `retain handling ${one.retain_handling}` : "",
    one.identifier || one.id ? `id ${one.identifier || one.id}` : ""].filter(Boolean).join(", ");
}

/** @param {{client: any}} props */
export function SubscriptionsTab({ client }) {
  if (client.subscriptions.length === 0) return html`<p class="empty">${T.client.subscriptionsEmpty}</p>`;
  return html`<div class="list-box"><table class="list"><thead><tr><th scope="col">${T.client.filter}</th><th scope="col">${T.client.qos}</th><th scope="col">${T.client.options}</th></tr></thead>
    <tbody>${client.subscriptions.map((/** @type {any} */ one) => html`<tr key=${one.filter}><td><a href=${link("/subscriptions", { under: one.filter })}><${Name} value=${one.filter} wrap /></a></td><td>${one.qos}</td><td class="soft">${subscriptionOptions(one)}</td></tr>`)}</tbody></table>
    ${client.subscriptions.length < client.subscriptionCount && html`<div class="rows-foot">${T.client.shown(number(client.subscriptions.length), number(client.subscriptionCount))}</div>`}</div>`;
}

/** What is asked for the events of a client. @param {string} id */
export const eventParams = (id) => ({ client: id, since: "-7d" });

/** @param {{id: string}} props */
export function EventsTab({ id }) {
  return html`<${EventsTable} params=${eventParams(id)} withClient=${false} above="22rem" empty=${T.client.eventsEmpty} />`;
}

const KINDS = /** @type {Record<string, "good" | "off" | "warn" | "bad">} */ ({
  acknowledged: "good", in_flight: "warn", owed: "warn", dropped: "bad", qos0: "off", not_for_it: "off", with_its_group: "off",
});

/** @param {{id: string, client: any, filter: string, since: string, onAsk: (patch: {filter: string, since: string}) => void}} props */
export function ExplainTab({ id, client, filter, since, onAsk }) {
  const first = client.subscriptions.find((/** @type {any} */ one) => !one.filter.startsWith("$"))?.filter ?? "#";
  const [typed, setTyped] = useState(filter || first);
  const [typedSince, setTypedSince] = useState(since);
  useEffect(() => { if (filter) setTyped(filter); setTypedSince(since); }, [filter, since]);
  const allowed = may("reader");
  const path = `sessions/${segment(id)}/explain`;
  const { data, error, loading, again } = useResource(allowed && filter ? path : null, { filter, since }, { keep: false });
  if (!allowed) return html`<p class="tab-body soft">${T.client.readerNeeded}</p>`;
  const messages = data?.messages ?? [];
  const counts = /** @type {Record<string, number>} */ ({});
  for (const message of messages) counts[message.state] = (counts[message.state] ?? 0) + 1;
  const wrong = (/** @type {string} */ name) => (error?.parameter === name ? error.detail : null);
  return html`<div>
    <form class="tab-body fields" onSubmit=${(/** @type {Event} */ event) => { event.preventDefault(); onAsk({ filter: typed.trim(), since: typedSince.trim() }); }}>
      <p class="soft explain-intro">${T.client.explainIntro}</p>
      <${Field} id="explain-filter" class="wide" mono label=${T.client.explainFilter} value=${typed} onInput=${setTyped} error=${wrong("filter")} />
      <${Field} id="explain-since" class="narrow" label=${T.client.explainSince} value=${typedSince} onInput=${setTypedSince} error=${wrong("since")} />
      <button type="submit" class="button primary">${T.client.explainAsk}</button>
      ${filter && html`<${CopyAs} address=${location.href} curl=${asCurl(path, { filter, since })} command=${explainCommand(id, filter, since)} />`}
    </form>
    <${Problem} error=${error} again=${again} beside=${["filter", "since"]} />
    ${loading && !data && filter && html`<p class="empty">${T.table.loading}</p>`}
    ${data && html`<p class="tab-body explain-counts" role="status">${messages.length === 0 ? T.client.explainNone : Object.entries(counts).map(([state, count]) => html`<${State} key=${state} kind=${KINDS[state] ?? "off"}>${number(count)} ${state.replaceAll("_", " ")}</${State}>`)}
      ${data.found > messages.length && html`<span class="soft">${T.client.newest(number(messages.length), number(data.found))}</span>`}
      ${data.lost_by_retention_at_most > 0 && html`<span class="soft">retention removed at most ${number(data.lost_by_retention_at_most)} messages of this time</span>`}</p>
      ${data.events_complete === false && html`<${Notice} kind="warn">In some seconds more was dropped than there are events: "acknowledged" may be "dropped" there.</${Notice}>`}`}
    ${messages.length > 0 && html`<div class="list-box"><table class="list"><thead><tr><th scope="col">${T.client.received}</th><th scope="col">${T.client.topic}</th><th scope="col">state</th><th scope="col">why</th><th scope="col">matched by</th><th scope="col">${T.client.place}</th></tr></thead>
      <tbody>${[...messages].reverse().map((/** @type {any} */ one) => html`<tr key=${`${one.shard}/${one.position_us}/${one.received_us}`}><td><${When} at_us=${one.received_us} precision="ms" /></td><td><${Name} value=${topicText(one.topic)} wrap /></td>
        <td><${State} kind=${KINDS[one.state] ?? "off"}>${one.state.replaceAll("_", " ")}</${State}></td><td>${one.why}</td><td>${(one.matched ?? []).map((/** @type {any} */ match) => html`<div key=${match.filter}><${Name} value=${match.filter} /> <span class="soft" title=${match.since_us ? `since ${time(match.since_us)}` : undefined}>QoS ${match.qos}</span></div>`)}</td>
        <td class="nowrap"><a title=${iso(one.position_us)} href=${link("/time", { f: topicText(one.topic), at: one.position_us })}>${one.shard}/${one.position_us}</a></td></tr>`)}</tbody></table></div>`}
  </div>`;
}

/** @param {string} id @param {string} filter @param {string} since */
function explainCommand(id, filter, since) {
  const at = id.indexOf("\0");
  return holdfast("explain", [`--client=${quote(id.slice(at + 1))}`, at > 0 && `--mount-point=${quote(id.slice(0, at))}`, `--topic=${quote(filter)}`, `--since=${quote(since)}`]);
}
