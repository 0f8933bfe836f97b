/**
 * Alarms, now and past, pipelines, and the audit of changes.
 */
import { asCurl, post, quote, segment } from "../parts/api.js";
import { holdfast } from "../parts/command.js";
import { CopyAs } from "../parts/copy_as.js";
import { ask } from "../parts/dialog.js";
import { duration, NONE } from "../parts/format.js";
import { html } from "../parts/html.js";
import { alarms as active, may, now_us, refreshAlarms, stats } from "../parts/live.js";
import { useResource } from "../parts/resource.js";
import { useCursorRows } from "../parts/rows.js";
import { Table } from "../parts/table.js";
import { Ago, Name, Problem, State, When } from "../parts/text.js";
import { T } from "../texts.js";
import { Runbook, RUNBOOK, runbookAddress } from "./runbook.js";

const HOUR_S = 3600;
/** Entries of the audit that are copied: as many as the command prints. */
const AUDITED = 100;
/** By lease: how far it is behind, how long ago it was renewed, and when retention broke it. */
const LEASES = ["lease_lag_seconds", "lease_age_seconds", "lease_broken_timestamp_seconds"];

/** @param {any} alarm */
const isMuted = (alarm) => Boolean(alarm.muted_until_us && alarm.muted_until_us > now_us());

/** @param {{alarm: any, again: () => void}} props */
function Active({ alarm, again }) {
  const path = `alarms/${segment(alarm.alarm)}/mute`;
  const mute = async () => {
    const result = await ask({
      title: T.health.muteTitle(alarm.alarm), effects: T.health.muteEffects, action: T.health.muteAction,
      curl: asCurl(path, {}, { method: "POST", body: { seconds: HOUR_S } }), command: holdfast("alarms mute", [`--seconds=${HOUR_S}`, quote(alarm.alarm)]), run: () => post(path, { seconds: HOUR_S }),
    });
    if (result === undefined) return;
    again();
    await refreshAlarms();
  };
  return html`<li class="alarm"><${State} kind=${isMuted(alarm) ? "off" : "warn"}><b>${alarm.alarm}</b></${State}>
    <div><p><${Name} value=${alarm.detail} limit=${400} wrap plain /></p><p class="soft small">${T.health.since} <${When} at_us=${alarm.since_us} /> (<${Ago} at_us=${alarm.since_us} />)${isMuted(alarm) && html` · ${T.health.muted} <${When} at_us=${alarm.muted_until_us} precision="min" />`}</p></div>
    <div class="actions">${alarm.runbook && html`<a href=${runbookAddress(alarm.runbook)}>${T.health.runbook}<span class="visually-hidden"> ${alarm.alarm}</span></a>`}
      ${may("operator") && !isMuted(alarm) && html`<button type="button" class="button" onClick=${mute}>${T.health.mute}<span class="visually-hidden"> ${alarm.alarm}</span></button>`}</div></li>`;
}

/** Pipelines by their leases, as the broker tells of them: nothing is asked for it. */
function Pipelines() {
  const labelled = stats.value?.labelled ?? {};
  const [lags, ages, ends] = LEASES.map((name) => labelled[name] ?? {});
  const names = [...new Set([...Object.keys(lags ?? {}), ...Object.keys(ends ?? {})])].sort();
  const more = [{ label: T.health.leasesCurl, text: asCurl("history/leases") }, { label: T.health.leasesRemove, text: holdfast("leases", ["--remove=NAME"]) }];
  return html`<section class="panel" aria-labelledby="pipelines-title"><div class="panel-head"><h2 id="pipelines-title">${T.health.pipelines}</h2><span class="soft small">${T.health.pipelinesIntro}</span><span class="spring"></span>
      <${CopyAs} label=${T.health.report} command=${holdfast("spark report", ["--since=-1d", "--output=report.html"])} /><${CopyAs} command=${holdfast("leases", ["--json"])} more=${more} /></div>
    ${names.length === 0 ? html`<p class="panel-body soft">${T.health.pipelinesNone}</p>` : html`<div class="list-box"><table class="list"><thead><tr><th scope="col">${T.health.lease}</th><th scope="col">${T.health.state}</th><th scope="col" class="number">${T.health.behind}</th><th scope="col" class="number">${T.health.renewed}</th></tr></thead>
      <tbody>${names.map((name) => html`<tr key=${name}><td><${Name} value=${name} wrap /></td>
        <td>${lags?.[name] === undefined ? html`<${State} kind="warn">${T.health.broken} <${When} at_us=${(ends?.[name] ?? 0) * 1e6} /></${State}>` : html`<${State} kind="good">${T.health.follows}</${State}>`}</td>
        <td class="number">${lags?.[name] === undefined ? NONE : duration(lags[name])}</td><td class="number">${ages?.[name] === undefined ? NONE : T.health.ago(duration(ages[name]))}</td></tr>`)}</tbody></table></div>`}</section>`;
}

/** @type {import("../parts/table.js").Column<any>[]} */
const AUDIT = [
  { key: "time", label: T.health.time, width: "11.5rem", narrow: "5.5rem", cell: (row) => html`<${When} at_us=${row.at_us} />` },
  { key: "who", label: T.health.who, width: "16%", cell: (row) => html`<${Name} value=${row.name} limit=${60} />${row.kind && row.kind !== "user" && html` <span class="soft">(${row.kind})</span>`}` },
  { key: "from", label: T.health.from, width: "13%", rank: 2, cell: (row) => row.address || NONE },
  { key: "what", label: T.health.what, width: "13%", cell: (row) => html`<${Name} value=${row.what} limit=${60} plain />` },
  { key: "target", label: T.health.target, rank: 2, cell: (row) => html`<${Name} value=${row.target} />` },
  { key: "outcome", label: T.health.outcome, width: "16%", rank: 2, cell: (row) => html`<${Name} value=${row.outcome ?? T.health.underWay} limit=${80} plain />` },
];

function Audit() {
  const allowed = may("admin");
  const rows = useCursorRows(allowed ? "audit" : null, {}, { fields: ["items", "audit"], refresh_s: 5 });
  rows?.version.value;
  return html`<section class="panel"><div class="panel-head"><h2>${T.health.audit}</h2><span class="soft small">${allowed ? T.health.auditIntro : T.health.auditRole}</span></div>
    ${rows && html`<${Table} label=${T.health.audit} rows=${rows} columns=${AUDIT} above="60vh" empty=${T.health.auditEmpty} />`}</section>`;
}

/** @param {{segments: (string | null)[]}} props */
export function Page({ segments }) {
  return segments[0] === "runbook" ? html`<${Runbook} />` : html`<${Health} />`;
}

function Health() {
  // What the stream says of alarms is the present; their past is asked for again whenever it changes.
  const { data, error, again } = useResource("alarms", {}, { every_s: 10 });
  const past = (data?.items ?? []).filter((/** @type {any} */ alarm) => alarm.until_us !== null).sort((/** @type {any} */ a, /** @type {any} */ b) => b.until_us - a.until_us);
  return html`<div class="page">
    <div class="page-head"><h1>${T.health.title}</h1><span class="spring"></span><a href=${RUNBOOK}>${T.health.runbook}</a><${CopyAs} address=${location.href} curl=${asCurl("alarms")} command=${holdfast("alarms list", ["--json"])} more=${may("admin") ? [{ label: T.health.auditCurl, text: asCurl("audit", { limit: AUDITED }) }, { label: T.health.auditCommand, text: holdfast("audit", ["--json"]) }] : []} /></div>
    <${Problem} error=${error} again=${again} />
    <section class="panel"><div class="panel-head"><h2>${T.health.now}</h2></div><div class="panel-body">
      ${active.value.length === 0 ? html`<${State} kind="good">${T.health.none}</${State}>` : html`<ul class="alarms">${active.value.map((alarm) => html`<${Active} key=${alarm.alarm} alarm=${alarm} again=${again} />`)}</ul>`}</div></section>
    <section class="panel"><div class="panel-head"><h2>${T.health.past}</h2></div>${past.length === 0 ? html`<p class="panel-body soft">${T.health.nonePast}</p>` : html`<div class="list-box"><table class="list">
      <thead><tr><th scope="col">${T.health.alarm}</th><th scope="col">${T.health.since}</th><th scope="col">${T.health.until}</th><th scope="col" class="number">${T.health.lasted}</th><th scope="col">${T.health.detail}</th></tr></thead>
      <tbody>${past.slice(0, 100).map((/** @type {any} */ alarm) => html`<tr key=${`${alarm.alarm} ${alarm.since_us}`}><td>${alarm.runbook ? html`<a href=${runbookAddress(alarm.runbook)} title=${T.health.runbook}>${alarm.alarm}</a>` : alarm.alarm}</td><td><${When} at_us=${alarm.since_us} /></td><td><${When} at_us=${alarm.until_us} /></td><td class="number">${duration((alarm.until_us - alarm.since_us) / 1e6)}</td><td><${Name} value=${alarm.detail} limit=${300} wrap plain /></td></tr>`)}</tbody></table></div>`}</section>
    <${Pipelines} />
    <${Audit} />
  </div>`;
}
