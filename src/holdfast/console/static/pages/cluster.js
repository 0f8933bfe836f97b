/**
 * The cluster as this node knows it: nodes, vnodes with their leaders, lags and digests, the paths of the channel
 * registry, and which connection took over from which.
 */
import { asCurl, quote } from "../parts/api.js";
import { clientAddress } from "../parts/client_row.js";
import { CopyAs } from "../parts/copy_as.js";
import { duration, NONE, number } from "../parts/format.js";
import { html } from "../parts/html.js";
import { useResource, useTyped } from "../parts/resource.js";
import { useQuery } from "../parts/router.js";
import { Field, Name, Notice, Problem, State, When } from "../parts/text.js";
import { T } from "../texts.js";

/**
 * @typedef {object} Member
 * @property {number} node
 * @property {string} name
 * @property {number} epoch
 * @property {"live" | "silent" | "fenced" | "left"} state
 * @property {number | null} beat_age_s
 * @property {boolean} ready
 * @property {number} lag_s
 * @property {number} connections
 * @property {Record<string, number>} applied by vnode
 * @property {Record<string, number>} lags_s by vnode
 * @property {Record<string, string>} addresses
 * @property {number[]} leads
 * @property {string[]} reasons
 * @property {Record<string, number>} counts
 */
/**
 * @typedef {object} Cluster
 * @property {string} name
 * @property {string} cluster_id
 * @property {number} node
 * @property {number} epoch
 * @property {number} clock_skew_s
 * @property {Member[]} members
 * @property {Record<string, number>} last by vnode
 * @property {Record<string, number>} leaders by vnode
 * @property {{vnode: number, node: number, sequence: number, equal: boolean}[]} digests
 * @property {string[]} problems
 */

/** Behind by less than this is not worth a word. */
const NOTED_S = 1;
const REGISTRY = "registry/";

/** @param {Member} member */
const kindOf = (member) => (member.state !== "live" ? "off" : member.ready ? "good" : "bad");

/** @param {Member} member */
const stateOf = (member) => (member.state === "live" ? `${T.cluster.states.live}, ${member.ready ? T.cluster.isReady : T.cluster.isNotReady}` : T.cluster.states[member.state] ?? member.state);

/** @param {{cluster: Cluster}} props */
function Nodes({ cluster }) {
  const C = T.cluster;
  return html`<section class="panel"><div class="panel-head"><h2>${C.nodes}</h2><span class="soft small">${number(cluster.members.length)}</span></div><div class="list-box"><table class="list">
    <thead><tr><th scope="col" class="number">${C.node}</th><th scope="col">${C.name}</th><th scope="col">${C.state}</th><th scope="col" class="number">${C.beat}</th><th scope="col" class="number">${C.lag}</th>
      <th scope="col" class="number">${C.connections}</th><th scope="col" class="number">${C.leads}</th><th scope="col" class="number">${C.epoch}</th><th scope="col">${C.addresses}</th></tr></thead>
    <tbody>${cluster.members.map((member) => html`<tr key=${member.node}><td class="number">${member.node}</td>
      <td><${Name} value=${member.name} limit=${60} />${member.node === cluster.node && html` <span class="tag">${C.here}</span>`}</td>
      <td><${State} kind=${kindOf(member)}>${stateOf(member)}</${State}>${member.reasons.map((why) => html`<p class="soft small" key=${why}><${Name} value=${why} limit=${400} wrap plain /></p>`)}</td>
      <td class="number">${member.beat_age_s === null ? NONE : C.ago(duration(Math.round(member.beat_age_s)))}</td><td class="number">${duration(member.lag_s)}</td>
      <td class="number">${number(member.connections)}</td><td class="number">${C.leadsCount(number(member.leads.length))}</td><td class="number">${number(member.epoch)}</td>
      <td>${Object.entries(member.addresses).map(([what, where]) => html`<div key=${what}><span class="soft">${what}</span> <${Name} value=${where} limit=${80} /></div>`)}</td></tr>`)}</tbody></table></div></section>`;
}

/** How far a node is in a vnode, and whether its tables are equal to those of this node. @param {{cluster: Cluster, member: Member, vnode: string}} props */
function Progress({ cluster, member, vnode }) {
  const applied = member.applied[vnode];
  if (applied === undefined) return html`<td class="number">${NONE}</td>`;
  const lag_s = member.lags_s[vnode] ?? 0;
  const digest = cluster.digests.find((one) => one.node === member.node && String(one.vnode) === vnode);
  return html`<td class="number">${number(applied)}${lag_s >= NOTED_S && html` <span class="tag warn">${T.cluster.behind(duration(lag_s))}</span>`}
    ${digest && (digest.equal ? html`<div class="soft small">${T.cluster.equal(number(digest.sequence))}</div>` : html`<div><span class="tag bad">${T.cluster.differs(number(digest.sequence))}</span></div>`)}</td>`;
}

/** @param {{cluster: Cluster}} props */
function Vnodes({ cluster }) {
  const C = T.cluster;
  const members = cluster.members.filter((member) => member.state !== "left");
  const vnodes = Object.keys(cluster.last).sort((a, b) => Number(a) - Number(b));
  return html`<section class="panel"><div class="panel-head"><h2>${C.vnodes}</h2><span class="soft small">${C.vnodesIntro}</span></div><div class="list-box"><table class="list">
    <thead><tr><th scope="col" class="number">${C.vnode}</th><th scope="col" class="number">${C.leader}</th><th scope="col" class="number">${C.last}</th>
      ${members.map((member) => html`<th scope="col" class="number" key=${member.node}>${C.nodeColumn(member.node)}</th>`)}</tr></thead>
    <tbody>${vnodes.map((vnode) => html`<tr key=${vnode}><td class="number">${vnode}</td><td class="number">${cluster.leaders[vnode] || html`<span class="tag warn">${C.noLeader}</span>`}</td><td class="number">${number(cluster.last[vnode])}</td>
      ${members.map((member) => html`<${Progress} key=${member.node} cluster=${cluster} member=${member} vnode=${vnode} />`)}</tr>`)}</tbody></table></div></section>`;
}

/**
 * Counts of all nodes, side by side.
 * @param {{title: string, intro: string, cluster: Cluster, wanted: (name: string) => boolean, label: string, meanings?: Record<string, string>}} props
 */
function Counts({ title, intro, cluster, wanted, label, meanings }) {
  const members = cluster.members.filter((member) => member.state !== "left");
  const known = Object.keys(meanings ?? {}).map((name) => REGISTRY + name);
  const names = [...new Set([...known, ...members.flatMap((member) => Object.keys(member.counts)).filter(wanted).sort()])];
  return html`<section class="panel"><div class="panel-head"><h2>${title}</h2><span class="soft small">${intro}</span></div><div class="list-box"><table class="list">
    <thead><tr><th scope="col">${label}</th>${meanings && html`<th scope="col">${T.cluster.meaning}</th>`}${members.map((member) => html`<th scope="col" class="number" key=${member.node}>${T.cluster.nodeColumn(member.node)}</th>`)}</tr></thead>
    <tbody>${names.map((name) => html`<tr key=${name}><td class="mono nowrap">${meanings ? name.slice(REGISTRY.length) : name}</td>${meanings && html`<td class="soft">${meanings[name.slice(REGISTRY.length)] ?? ""}</td>`}
      ${members.map((member) => html`<td class="number" key=${member.node}>${number(member.counts[name] ?? 0)}</td>`)}</tr>`)}</tbody></table></div></section>`;
}

/** @param {any} one */
function outcome(one) {
  if (!one.other) return one.accepted ? T.cluster.registered : T.cluster.refused;
  return one.accepted ? T.cluster.inPlaceOf(one.other) : T.cluster.becauseOf(one.other);
}

function Takeovers() {
  const C = T.cluster;
  const [query, setQuery] = useQuery({ client: "" });
  const [client, setClient] = useTyped(query.client, (client) => setQuery({ client }));
  const params = { client: query.client };
  const { data, error, again } = useResource("cluster/takeovers", params, { every_s: 5 });
  const items = data?.items ?? [];
  return html`<section class="panel"><div class="panel-head"><h2>${C.takeovers}</h2><span class="soft small">${C.takeoversIntro}</span><span class="spring"></span>
      <${CopyAs} address=${location.href} curl=${asCurl("cluster/takeovers", params)} command=${query.client ? `holdfast sessions claims ${quote(query.client)}` : undefined} /></div>
    <div class="panel-body"><div class="fields"><${Field} id="takeover-client" label=${C.client} mono value=${client} onInput=${setClient} /></div></div>
    <${Problem} error=${error} again=${again} />
    ${data && items.length === 0 && html`<p class="empty">${C.noTakeovers}</p>`}
    ${items.length > 0 && html`<div class="list-box"><table class="list"><thead><tr><th scope="col">${C.at}</th><th scope="col">${C.client}</th><th scope="col" class="number">${C.node}</th><th scope="col" class="number">${C.connection}</th><th scope="col">${C.outcome}</th></tr></thead>
      <tbody>${items.map((/** @type {any} */ one) => html`<tr key=${`${one.at_us} ${one.node} ${one.connection} ${one.session_id}`}><td><${When} at_us=${one.at_us} precision="ms" /></td><td><a href=${clientAddress(one.session_id)}><${Name} value=${one.session_id} limit=${80} /></a></td>
        <td class="number">${one.node}</td><td class="number">${one.connection}</td><td>${outcome(one)}</td></tr>`)}</tbody></table></div>`}</section>`;
}

export function Page() {
  const { data, error, again } = useResource("cluster", {}, { every_s: 2 });
  if (error?.status === 404) return html`<div class="page"><h1>${T.cluster.title}</h1><p class="soft">${T.cluster.none}</p></div>`;
  if (!data) return html`<div class="page" aria-busy="true"><h1>${T.cluster.title}</h1><${Problem} error=${error} again=${again} /></div>`;
  /** @type {Cluster} */
  const cluster = data;
  const C = T.cluster;
  const isWell = cluster.problems.length === 0;
  return html`<div class="page">
    <div class="page-head"><h1>${C.title}</h1><${State} kind=${isWell ? "good" : "bad"}>${isWell ? C.ready : C.notReady}</${State}><span class="spring"></span>
      <${CopyAs} address=${location.href} curl=${asCurl("cluster")} command="holdfast cluster status --json" /></div>
    <p class="headline">${[...C.headline(cluster.name, cluster.cluster_id, cluster.node, cluster.epoch), cluster.clock_skew_s < 0 ? C.clockBehind(duration(-cluster.clock_skew_s)) : C.clockAhead(duration(cluster.clock_skew_s))].map((text) => html`<span key=${text}>${text}</span>`)}</p>
    <${Problem} error=${error} again=${again} />
    ${!isWell && html`<${Notice} kind="bad" role="alert"><ul>${cluster.problems.map((text) => html`<li key=${text}><${Name} value=${text} limit=${600} wrap plain /></li>`)}</ul></${Notice}>`}
    <${Nodes} cluster=${cluster} />
    <${Vnodes} cluster=${cluster} />
    <${Takeovers} />
    <${Counts} title=${C.registry} intro=${C.registryIntro} cluster=${cluster} label=${C.path} meanings=${C.paths} wanted=${(/** @type {string} */ name) => name.startsWith(REGISTRY)} />
    <${Counts} title=${C.counts} intro=${C.countsIntro} cluster=${cluster} label=${C.count} wanted=${(/** @type {string} */ name) => !name.startsWith(REGISTRY)} />
  </div>`;
}
