/**
 * The panels of the overview: alarms, storage, drops by reason, listeners.
 */
import { get } from "../parts/api.js";
import { bytes, day, duration, number, percent } from "../parts/format.js";
import { classes, html, useEffect, useState } from "../parts/html.js";
import { alarms, node, now_us, stats } from "../parts/live.js";
import { total, untilZero } from "../parts/numbers.js";
import { useResource } from "../parts/resource.js";
import { link } from "../parts/router.js";
import { Ago, State } from "../parts/text.js";
import { T } from "../texts.js";

/** What events know is asked for again after so many seconds. */
const EVENTS_EVERY_S = 10;
/** How fast the disk fills is judged by so much time, again every minute. */
const FILLING_S = 86_160;
const FILLING_EVERY_S = 60;
/** From here on a time is told in hours. */
const LONG_S = 10 * 3600;
const MOST_REASONS = 12;
/** Reasons of events by which no message was dropped. */
const NO_DROPS = new Set([
  "connect_refused", "subscribe_refused", "disconnected", "takeover", "damaged", "queues_away", "queues_back", "erased", "not_stored", "lake_away",
]);

/**
 * Drops of the range by reason, and beside each how many there were since the start. How many there were in the range is
 * known by the series; of which reason, by the events, of which the oldest of a flood are not kept.
 * @param {{range: string, label: string, dropped: number | null, rough: boolean}} props dropped: in the range, null if it is not known yet; rough: by means of many seconds
 */
export function Drops({ range, label, dropped, rough }) {
  const sinceStart = stats.value?.labelled["drops_total"] ?? {};
  const some = dropped !== null && Math.round(dropped) > 0;
  const { data, error } = useResource(some && node.value?.has_past !== false ? "events" : null, { since: `-${range}`, limit: 1 }, { every_s: EVENTS_EVERY_S });
  const inRange = /** @type {Record<string, number>} */ (data?.counts_by_reason ?? {});
  const known = data !== null || (dropped !== null && !some);
  const reasons = new Set([...Object.keys(sinceStart), ...Object.keys(inRange).filter((reason) => !NO_DROPS.has(reason))]);
  const rows = [...reasons].map((reason) => ({ reason, count: inRange[reason] ?? 0, since: sinceStart[reason] ?? 0 }))
    .filter((row) => row.count > 0 || row.since > 0).sort((a, b) => b.count - a.count || b.since - a.since);
  const most = Math.max(1, ...rows.map((row) => row.count));
  const told = rows.reduce((sum, row) => sum + row.count, 0);
  const all = total(stats.value, "drops_total") ?? 0;
  return html`<section class="panel drops" aria-labelledby="drops-title"><div class="panel-head"><h2 id="drops-title">${T.overview.dropsTitle}</h2>
      <span class="soft small">${dropped === null ? "" : T.overview.dropsRange(`${rough && some ? T.overview.about : ""}${number(Math.round(dropped))}`, label)}</span></div>
    <div class="panel-body">${rows.length === 0 ? html`<p class="soft">${T.overview.dropsNone(label)}</p>` : html`<ul class="bars">
      ${rows.slice(0, MOST_REASONS).map((row) => html`<li key=${row.reason}><a href=${link("/events", { reason: row.reason, since: `-${range}` })}>${row.reason}</a>
        <span class="bar-line" aria-hidden="true"><span style=${{ width: `${known && row.count ? Math.max(0.5, (row.count / most) * 100) : 0}%` }}></span></span>
        <span class="number">${known ? number(row.count) : "–"} <span class="soft small">${T.overview.dropsSince(number(row.since))}</span></span></li>`)}
    </ul>`}
    ${rows.length > 0 && html`<p class="soft small">${T.overview.dropsAll(number(all))}${known && some && told < Math.round(dropped) ? ` ${T.overview.dropsMore}` : ""}${error ? ` ${T.overview.dropsUnknown}` : ""}</p>`}</div></section>`;
}

/** When the disk is full, asked for again as time goes on; null before the first answer. */
function useToFull() {
  const [state, setState] = useState(/** @type {ReturnType<typeof untilZero> | null} */ (null));
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const control = new AbortController();
    const to_us = Math.max(Math.floor(now_us()), stats.value?.as_of_us ?? 0);
    get("series", { names: "disk_free_bytes", from_us: to_us - FILLING_S * 1e6, to_us }, { signal: control.signal })
      .then((answer) => setState(untilZero(answer.values[0] ?? [], answer.step_s)), () => { if (!control.signal.aborted) setState(null); });
    return () => control.abort();
  }, [turn]);
  useEffect(() => {
    const timer = setInterval(() => { if (!document.hidden) setTurn((n) => n + 1); }, FILLING_EVERY_S * 1000);
    return () => clearInterval(timer);
  }, []);
  return state;
}

/** @param {ReturnType<typeof untilZero>} props */
function ToFull({ seconds, of_s }) {
  if (of_s === null) return html`<span class="soft">${T.overview.fullUnknown}</span>`;
  const span = of_s < LONG_S ? duration(Math.max(60, Math.round(of_s / 60) * 60)) : `${Math.round(of_s / 3600)} h`;
  if (seconds === null) return html`<span class="soft">${T.overview.notFilling(span)}</span>`;
  return html`<span class=${seconds < 7 * 86_400 ? "state bad" : "soft"}>${T.overview.fullIn(duration(Math.round(seconds / 3600) * 3600), span)}</span>`;
}

export function Storage() {
  const now = stats.value;
  const toFull = useToFull();
  const free = total(now, "disk_free_bytes");
  const all = total(now, "disk_total_bytes");
  const used = free !== null && all ? 1 - free / all : null;
  const zones = Object.keys(now?.labelled["stored_messages"] ?? {}).sort();
  const oldest = Math.min(...Object.values(now?.labelled["oldest_message_timestamp_seconds"] ?? {}).filter((at) => at > 0));
  return html`<section class="panel"><div class="panel-head"><h2>${T.overview.storage}</h2><span class="soft small">${Number.isFinite(oldest) && html`${T.overview.oldest} <${Ago} at_us=${oldest * 1e6} />`}</span></div>
    <div class="panel-body">
      ${used !== null && html`<div class="disk"><div class=${classes("meter", used > 0.9 && "bad")} role="img" aria-label=${`${percent(used)} ${T.overview.used}`}><span style=${{ width: `${used * 100}%` }}></span></div>
        <p><b>${percent(used)}</b> ${T.overview.used} · ${bytes(free)} ${T.overview.free}${toFull && html` · <${ToFull} ...${toFull} />`}</p></div>`}
      ${zones.length > 0 && html`<div class="list-box"><table class="list flat"><thead><tr><th scope="col">${T.overview.zone}</th><th scope="col" class="number">${T.overview.messages}</th><th scope="col" class="number">${T.overview.bytes}</th><th scope="col" class="number">${T.overview.generations}</th><th scope="col" class="number">${T.overview.oldest}</th></tr></thead>
        <tbody>${zones.map((zone) => html`<tr key=${zone}><td>${zone}</td><td class="number">${number(now?.labelled["stored_messages"]?.[zone])}</td><td class="number">${bytes(now?.labelled["stored_bytes"]?.[zone])}</td>
          <td class="number">${number(now?.labelled["generations"]?.[zone])}</td><td class="number"><${Ago} at_us=${(now?.labelled["oldest_message_timestamp_seconds"]?.[zone] ?? 0) * 1e6} /></td></tr>`)}</tbody></table></div>`}
      ${node.value && node.value.has_past === false && html`<p class="soft">${T.overview.noPast}</p>`}
    </div></section>`;
}

export function Alarms() {
  const active = alarms.value;
  return html`<section class="panel"><div class="panel-head"><h2>${T.overview.alarms}</h2><span class="spring"></span><a href="/health">${T.nav.health}</a></div>
    <div class="panel-body">${active.length === 0 ? html`<${State} kind="good">${T.overview.noAlarms}</${State}>` : html`<ul class="alarm-list">
      ${active.map((alarm) => html`<li key=${alarm.alarm}><${State} kind="warn"><a href="/health">${alarm.alarm}</a></${State}> <span class="soft">${T.overview.since("")}<${Ago} at_us=${alarm.since_us} /></span><p class="soft">${alarm.detail}</p></li>`)}
    </ul>`}</div></section>`;
}

export function Listeners() {
  const listeners = node.value?.listeners ?? [];
  const ends = stats.value?.labelled["certificate_expiry_timestamp_seconds"] ?? {};
  const counts = stats.value?.labelled["connections"] ?? {};
  return html`<section class="panel"><div class="panel-head"><h2>${T.overview.listeners}</h2></div><div class="panel-body flush list-box"><table class="list">
    <thead><tr><th scope="col">${T.overview.listener}</th><th scope="col">${T.overview.address}</th><th scope="col" class="number">${T.overview.connections.toLowerCase()}</th><th scope="col" class="number">${T.overview.certificate}</th></tr></thead>
    <tbody>${listeners.map((/** @type {any} */ one) => html`<tr key=${one.name}><td><a href=${link("/clients", { listener: one.name })}>${one.name}</a> <span class="soft">${one.kind}</span></td><td class="nowrap">${one.host}:${one.port}</td>
      <td class="number">${number(counts[one.name] ?? one.connections)}</td>
      <td class="number">${ends[one.name] ? html`<span title=${day(/** @type {number} */ (ends[one.name]) * 1e6)}>${duration(/** @type {number} */ (ends[one.name]) - now_us() / 1e6)}</span>` : html`<span class="soft">–</span>`}</td></tr>`)}</tbody></table></div></section>`;
}
