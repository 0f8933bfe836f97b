/**
 * One client: its connection, session, queue, what is in flight, subscriptions, events, and why a message did not come.
 */
import { asCurl, del, post, quote, segment } from "../parts/api.js";
import { addressText, expiryText, isBehind, owedText, versionText } from "../parts/client_row.js";
import { holdfast } from "../parts/command.js";
import { CopyAs } from "../parts/copy_as.js";
import { ask } from "../parts/dialog.js";
import { duration, NONE, number, visible } from "../parts/format.js";
import { html, useState } from "../parts/html.js";
import { may, node } from "../parts/live.js";
import { useResource } from "../parts/resource.js";
import { link, useQuery } from "../parts/router.js";
import { Ago, Name, Notice, Problem, State, Tabs, When } from "../parts/text.js";
import { T } from "../texts.js";
import { askBlock, askUnblock } from "./block_dialogs.js";
import { eventParams, EventsTab, ExplainTab, InflightTab, QUEUE_PAGE, QueueTab, SubscriptionsTab } from "./client_tabs.js";

/** What is said of a client, whether it is connected or not. @param {any} answer the answer of GET clients/{id} */
function summary(answer) {
  const { connection, session } = answer;
  return {
    connection,
    user: connection?.user ?? answer.user ?? session?.user ?? "",
    expiry_s: answer.expiry_s ?? session?.expiry_s,
    disconnected_us: answer.disconnected_us || session?.disconnected_us || null,
    subscriptions: answer.subscriptions ?? session?.subscriptions ?? [],
    subscriptionCount: answer.subscription_count ?? session?.subscriptions?.length ?? 0,
    inflight: answer.inflight ?? session?.inflight ?? [],
    inflightCount: answer.inflight_count ?? session?.inflight?.length ?? 0,
    owed: answer.owed ?? session?.owed_at_most ?? null,
    hasWill: Boolean(answer.has_will),
    block: answer.block ?? null,
  };
}

/** @param {{segments: (string | null)[]}} props */
export function Page({ segments }) {
  const id = segments[0];
  if (id === null || id === undefined) return html`<div class="page"><h1>${T.problem.notFoundTitle}</h1><p>${T.problem.notFound}</p></div>`;
  return html`<${Client} key=${id} id=${id} />`;
}

/** @param {{id: string}} props */
function Client({ id }) {
  const [query, setQuery] = useQuery({ tab: "session", filter: "", since: "-1h" });
  const [said, setSaid] = useState("");
  const path = `clients/${segment(id)}`;
  const { data, error, again } = useResource(path, {}, { every_s: 2 });
  if (error?.status === 404 || error?.status === 400) {
    return html`<div class="page"><div class="page-head"><h1><${Name} value=${id} wrap /></h1></div>
      ${said && html`<${Notice} role="status">${said}</${Notice}>`}
      <${Notice} kind="warn">${T.client.notFound(visible(id, 120))} <a href=${`/events?client=${encodeURIComponent(id)}`}>${T.nav.events}</a> · <a href="/clients">${T.nav.clients}</a></${Notice}></div>`;
  }
  if (!data) return html`<div class="page" aria-busy="true"><${Problem} error=${error} again=${again} /></div>`;
  const client = summary(data);
  const here = client.connection;
  const kind = !here ? "off" : isBehind(here) ? "warn" : "good";
  const subject = html`<${Name} value=${id} wrap /><br /><span class="soft">${here ? `${addressText(here)} · ${here.listener} · MQTT ${versionText(here.version)}` : T.client.offline}${client.user && html` · <${Name} value=${client.user} limit=${60} />`}</span>`;

  const done = (/** @type {any} */ result, /** @type {(result: any) => string} */ text) => {
    if (result === undefined) return;
    setSaid(text(result));
    again();
  };
  const block = async () => done(await askBlock(id, subject), (result) => T.blocks.done(number(result.disconnected)));
  const unblock = async () => done(await askUnblock(client.block), () => T.blocks.unblocked);
  const kick = async () => done(await ask({
    title: T.client.kickTitle, subject, effects: T.client.kickEffects(addressText(here)), action: T.client.kick,
    curl: asCurl(`${path}/kick`, {}, { method: "POST" }), command: holdfast("clients kick", [], id), run: () => post(`${path}/kick`),
  }), (result) => T.client.kicked(visible(result.address ?? addressText(here))));
  const end = async () => done(await ask({
    title: T.client.endTitle, subject, danger: true, action: T.client.end,
    effects: T.client.endEffects(`${number(client.subscriptionCount)} ${client.subscriptionCount === 1 ? "subscription" : "subscriptions"}`, `${number(client.owed)} messages`),
    curl: asCurl(`sessions/${segment(id)}`, {}, { method: "DELETE" }), command: holdfast("sessions end", [], id), run: () => del(`sessions/${segment(id)}`),
  }), () => T.client.ended);
  const purge = async () => done(await ask({
    title: T.client.purgeTitle(`${number(client.owed)} messages`), subject, danger: true, effects: T.client.purgeEffects, action: T.client.purge,
    curl: asCurl(`sessions/${segment(id)}/queue`, {}, { method: "DELETE" }), command: holdfast("sessions purge", [], id), run: () => del(`sessions/${segment(id)}/queue`),
  }), (result) => T.client.purged(number(result.purged)));

  const count = (/** @type {number | null} */ n) => (n ? html` <span class="tag">${number(n)}</span>` : "");
  const tabs = [
    { value: "session", label: T.client.tabs.session },
    { value: "queue", label: html`${T.client.tabs.queue}${count(client.owed)}` },
    { value: "inflight", label: html`${T.client.tabs.inflight}${count(client.inflightCount)}` },
    { value: "subscriptions", label: html`${T.client.tabs.subscriptions}${count(client.subscriptionCount)}` },
    { value: "events", label: T.client.tabs.events },
    { value: "explain", label: T.client.tabs.explain },
  ];
  const tab = tabs.some((one) => one.value === query.tab) ? query.tab : "session";
  return html`<div class="page">
    <div><div class="page-head client-head">
      <h1><${Name} value=${id} limit=${400} wrap /></h1>
      <${State} kind=${kind}>${here ? (isBehind(here) ? `${T.client.connected}, ${T.client.behind}` : T.client.connected) : T.client.offline}</${State}>
      ${client.block && html`<span class="tag bad">${T.blocks.tag}</span>`}
      <span class="spring"></span>
      ${may("operator") && html`<span class="actions">
        ${here && html`<button type="button" class="button" onClick=${kick}>${T.client.kick} …</button>`}
        ${client.block ? html`<button type="button" class="button" onClick=${unblock}>${T.client.unblock} …</button>` : html`<button type="button" class="button" onClick=${block}>${T.client.block} …</button>`}
        ${client.owed ? html`<button type="button" class="button danger" onClick=${purge}>${T.client.purge} …</button>` : null}
        <button type="button" class="button danger" onClick=${end}>${T.client.end} …</button></span>`}
      <${CopyAs} address=${location.href} curl=${asCurl(path)} command=${holdfast("clients show", [], id)} more=${tabEntries(query.tab, id)} />
    </div>
    <div role="status" class="said">${said && html`<${Notice}>${said}</${Notice}>`}</div></div>
    <${Problem} error=${error} again=${again} />
    <section class="panel client"><${Tabs} id="client" label=${visible(id, 60)} value=${tab} tabs=${tabs} onChange=${(/** @type {string} */ value) => setQuery({ tab: value })}>
      ${tab === "session" && html`<${Session} id=${id} client=${client} />`}
      ${tab === "queue" && html`<${QueueTab} id=${id} />`}
      ${tab === "inflight" && html`<${InflightTab} client=${client} />`}
      ${tab === "subscriptions" && html`<${SubscriptionsTab} client=${client} />`}
      ${tab === "events" && html`<${EventsTab} id=${id} />`}
      ${tab === "explain" && html`<${ExplainTab} id=${id} client=${client} filter=${query.filter} since=${query.since} onAsk=${(/** @type {any} */ patch) => setQuery(patch, { push: true })} />`}
    </${Tabs}></section>
  </div>`;
}

/** What is copied of a tab that asks for more than the client. @param {string} tab @param {string} id */
function tabEntries(tab, id) {
  if (tab === "queue" && may("reader")) return [{ label: T.client.queueCurl, text: asCurl(`sessions/${segment(id)}/queue`, { limit: QUEUE_PAGE }) }];
  if (tab !== "events") return [];
  const params = eventParams(id);
  const curl = { label: T.client.eventsCurl, text: asCurl("events", params) };
  // The command takes the client id alone, so of a session behind a mount point it would list those of others, too.
  return id.includes("\0") ? [curl] : [curl, { label: T.client.eventsCommand, text: holdfast("events", [`--client=${quote(id)}`, `--since=${params.since}`]) }];
}

/** @param {{id: string, client: ReturnType<typeof summary>}} props */
function Session({ id, client }) {
  const here = client.connection;
  const f = T.client.facts;
  /** @type {[string, any][]} */
  const facts = here ? [
    [f.address, addressText(here)], [f.listener, html`${here.listener}${here.transport !== here.listener && html` <span class="soft">${here.transport}</span>`}`], [f.protocol, `MQTT ${versionText(here.version)}`],
    [f.user, html`<${Name} value=${client.user} wrap />`], [f.since, html`<${When} at_us=${here.since_us} /> <span class="soft">(<${Ago} at_us=${here.since_us} />)</span>`],
    [f.keepAlive, here.keep_alive_s ? duration(here.keep_alive_s) : NONE],
  ] : [
    [f.user, html`<${Name} value=${client.user} wrap />`],
    [f.disconnected, html`<${When} at_us=${client.disconnected_us} /> <span class="soft">(<${Ago} at_us=${client.disconnected_us} />)</span>`],
  ];
  facts.push([f.expiry, expiryText(client.expiry_s)], [f.subscriptions, number(client.subscriptionCount)], [f.inflight, number(client.inflightCount)],
    [f.owed, owedText(client.owed)], [f.will, client.hasWill ? T.client.yes : T.client.no]);
  const { block } = client;
  if (block) {
    facts.unshift([f.block, html`${T.blocks.byWhat(block.kind)}, ${block.until_us ? html`${T.blocks.until} <${When} at_us=${block.until_us} />` : T.blocks.noEnd}
      ${block.by && html` · ${T.blocks.by} <${Name} value=${block.by} limit=${60} />`}${block.reason && html`: <${Name} value=${block.reason} limit=${300} wrap plain />`}`]);
  }
  if (here && here.client_id !== id) facts.unshift([f.clientId, html`<${Name} value=${here.client_id} wrap />`]);
  return html`<div class="tab-body"><dl class="facts">${facts.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
    ${node.value?.has_past === false && html`<p class="soft">${T.client.noPast}</p>`}
    ${node.value?.has_past && may("reader") && html`<p class="more"><a href=${link("/time", { f: "#", client: here?.client_id ?? id })}>${T.client.published}</a></p>`}
    ${node.value?.cluster && html`<p class="more"><a href=${link("/cluster", { client: id })}>${T.client.takeovers}</a></p>`}</div>`;
}
