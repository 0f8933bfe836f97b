/**
 * The messages around A: newest at A, a hundred at a time, both ways; and the one that is chosen, whole.
 */
import { classes, html, useEffect, useState } from "../parts/html.js";
import { get, segment } from "../parts/api.js";
import { day, duration, number, time, timeOfDay, timeZone, toText, zoneName } from "../parts/format.js";
import { Name, Problem } from "../parts/text.js";
import { Payload } from "../parts/payload.js";
import { askable, glance } from "../parts/payload_bytes.js";
import { link, navigate } from "../parts/router.js";
import { Grid } from "./time_grid.js";
import { isoShort } from "./time_view.js";

/** @typedef {import("./time_questions.js").Message} Message */
/** @typedef {import("./time_questions.js").Messages} Messages */
/** @typedef {import("./time_view.js").View} View */

/** @param {boolean} dated the range is longer than a day */
const columns = (dated) => [
  { key: "time", label: "time", class: "mono", cell: (/** @type {Message} */ m) => `${dated ? `${day(m.at_us).slice(5)} ` : ""}${timeOfDay(m.at_us, "ms")}` },
  { key: "topic", label: "topic", cell: (/** @type {Message} */ m) => html`<${Name} value=${toText(m.topic)} />` },
  { key: "qos", label: "QoS", class: "soft narrow-hidden", cell: (/** @type {Message} */ m) => `q${m.qos}${m.retain ? " R" : ""}` },
  { key: "client", label: "client", class: "narrow-hidden", cell: (/** @type {Message} */ m) => html`<${Name} value=${m.client} limit=${40} />` },
  { key: "payload", label: "payload", class: "mono", cell: (/** @type {Message} */ m) => html`<bdi>${glance(m.payload)}</bdi>` },
];

/**
 * @param {object} props
 * @param {Messages & {more: (way: "older" | "newer") => void}} props.messages
 * @param {ReturnType<typeof import("./time_questions.js").useLive> | null} props.live
 * @param {View} props.view
 * @param {number} props.at
 * @param {boolean} props.searching client or payload narrow the messages
 * @param {Message | null} props.chosen
 * @param {(message: Message | null) => void} props.onChosen
 * @param {boolean} props.quiet A moves by itself: nothing is spoken meanwhile
 */
export function MessagesPanel({ messages, live, view, at, searching, chosen, onChosen, quiet }) {
  const dated = (view.to ?? 0) - (view.from ?? 0) > 20 * 3600e6;
  const found = messages.newer.length + messages.older.length;
  const separator = { separator: html`<span class="a-line">A <b class="mono">${time(at, "ms")}</b></span>` };
  const rows = live ? live.shown : [...messages.newer, ...(messages.newer.length ? [separator] : []), ...messages.older];
  const zone = timeZone.value;
  return html`<section class="panel time-messages" aria-labelledby="messages-title" aria-busy=${!live && messages.busy}>
    <div class="panel-head">
      <h2 id="messages-title">${live ? "Live messages" : "Messages"}</h2>
      <span class="soft small">${live ? "newest first" : `newest at A, ${zone === "utc" ? "UTC" : zoneName()}`}</span>
      <span class="spring"></span>
      ${!live && html`<button type="button" class="button quiet" disabled=${messages.busy || messages.newerSide.end || at >= (view.to ?? 0)}
        onClick=${() => messages.more("newer")}>Newer than A</button>`}
    </div>
    <${Problem} error=${live ? live.error : messages.error} beside=${BESIDE} />
    <${Grid} name=${classes("grid-messages", dated && "dated")} label=${live ? "Live messages" : "Messages, newest first"} columns=${columns(dated)} rows=${rows}
      rowKey=${(/** @type {Message} */ m) => m.place} active=${chosen?.place ?? null} onActive=${onChosen}
      above=${live ? 0 : messages.newer.length} reset=${`${live ? "live" : at}|${view.filter}|${view.from}|${view.to}`}
      onEnd=${live || searching ? undefined : () => messages.more("older")}
      empty=${messages.error ? "no answer" : messages.busy ? "asking …" : live ? "no message since live began" : "no message from here back to the beginning of the range"} />
    <div class="time-foot" role="status" aria-live=${quiet ? "off" : "polite"}>${live ? liveText(live) : footText(messages, found, searching)}
      ${!live && searching && !messages.olderSide.end && messages.olderSide.asked && html` <button type="button" class="button quiet" disabled=${messages.busy}
        onClick=${() => messages.more("older")}>Go on</button>`}</div>
    ${chosen && html`<${Inspector} message=${chosen} onClose=${() => onChosen(null)} />`}
  </section>`;
}

/** Parameters whose errors stand beside their fields. */
export const BESIDE = ["filter", "zone", "client", "payload", "at", "from", "to", "a", "b", "path", "topic"];

/** @param {Messages} messages @param {number} found @param {boolean} searching */
function footText(messages, found, searching) {
  if (messages.busy && !messages.olderSide.asked) return "asking …";
  if (messages.error) return "";
  const lost = messages.lost > 0 ? ` At most ${number(messages.lost)} more were taken by retention.` : "";
  if (searching) {
    const of = messages.of === null ? "" : ` of ${number(messages.of)}`;
    const end = messages.olderSide.end ? ": all of the range back from A." : messages.olderSide.stopped === "time" ? ", paused after 2 s." : ".";
    return `Looked through ${number(messages.looked)}${of}, ${number(found)} found${end}${lost}`;
  }
  return messages.olderSide.end
    ? `${number(found)} ${found === 1 ? "message" : "messages"}, down to the beginning of the range.${lost}`
    : `${number(found)} loaded; more come while you scroll.${lost}`;
}

/** @param {ReturnType<typeof import("./time_questions.js").useLive>} live */
function liveText(live) {
  return `${number(live.seen)} since live began${live.counted ? `; ${number(live.counted)} of them counted, not shown: more than 200 in a second` : ""}.`;
}

/** @param {{message: Message, onClose: () => void}} props */
function Inspector({ message, onClose }) {
  const [full, setFull] = useState(/** @type {Message | null} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  useEffect(() => {
    setFull(null);
    setError(null);
  }, [message.place]);
  const topic = askable(message.topic);
  const shown = full ?? message;
  const loadAll = async () => {
    try {
      const answer = await get("history/messages", { filter: topic, at: message.at_us, direction: "older", limit: 20, full: 1 });
      const same = answer.messages.find((/** @type {Message} */ one) => one.place === message.place);
      if (same) setFull(same);
    } catch (problem) {
      setError(problem);
    }
  };
  const properties = Object.entries(message.properties ?? {});
  return html`<div class="inspector" role="region" aria-label="The chosen message">
    <div class="inspector-head"><h3><${Name} value=${toText(message.topic)} wrap limit=${600} /></h3>
      <button type="button" class="button bare icon" aria-label="Close the message" onClick=${onClose}>✕</button></div>
    <${Payload} key=${message.place} payload=${shown.payload} size=${message.bytes} topic=${topic ?? ""}
      contentType=${String(message.properties?.content_type ?? "")} onLoadAll=${topic !== null ? loadAll : undefined} />
    <${Problem} error=${error} />
    <dl class="facts">
      <div><dt>stored at</dt><dd class="mono">${time(message.at_us, "us")}</dd></div>
      <div><dt>received</dt><dd class="mono">${message.at_us === message.received_us ? "the same" : `${duration(Math.abs(message.at_us - message.received_us) / 1e6)} ${message.received_us <= message.at_us ? "before" : "after"}`}</dd></div>
      <div><dt>published by</dt><dd>${message.client ? html`<a href=${`/clients/${encodeURIComponent(message.client.toWellFormed?.() ?? message.client)}`}><${Name} value=${message.client} /></a>` : "–"}</dd></div>
      <div><dt>QoS, retain</dt><dd>${message.qos}${message.retain ? ", retained" : ""}</dd></div>
      <div><dt>place (shard/position/serial)</dt><dd class="mono">${message.place}</dd></div>
      <div><dt>zone</dt><dd>${message.zone}</dd></div>
      ${properties.map(([name, value]) => html`<div key=${name}><dt>${name.replaceAll("_", " ")}</dt><dd><${Name} value=${typeof value === "string" ? value : JSON.stringify(value)} wrap limit=${400} /></dd></div>`)}
    </dl>
    <div class="inspector-links">${topic !== null && html`<a class="button quiet" href=${link("/subscriptions", { topic })}>Who got this?</a>
      <a class="button quiet" href=${link("/time", { f: topic, at: message.at_us })}>Only this topic</a>
      <${ExplainForm} topic=${topic} at=${message.at_us} />`}</div>
  </div>`;
}

/**
 * What became of messages like this for a client.
 * @param {{topic: string, at: number}} props
 */
function ExplainForm({ topic, at }) {
  const [client, setClient] = useState("");
  const explain = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (client) navigate(link(`/clients/${segment(client)}`, { tab: "explain", filter: topic, since: isoShort(at) }));
  };
  return html`<form class="explain-form" onSubmit=${explain}><label for="explain-client" class="soft small">what became of it for</label>
    <input id="explain-client" class="mono" value=${client} placeholder="client id" autocomplete="off" spellcheck=${false} onInput=${(/** @type {any} */ event) => setClient(event.target.value)} />
    <button type="submit" class="button quiet" disabled=${!client}>Explain</button></form>`;
}
