/**
 * What stands around every page: navigation, node and its state, search, time zone, theme, who is logged in.
 */
import { post } from "./api.js";
import { duration, timeZone, zoneName } from "./format.js";
import { html, useState } from "./html.js";
import { alarms, connection, frameAge_s, isOld, me, node, now_us } from "./live.js";
import { route } from "./router.js";
import { SearchBox } from "./search_box.js";
import { Notice, State } from "./text.js";
import { chosen, nextTheme } from "./theme.js";
import { T } from "../texts.js";

/** @type {Record<string, string>} outlines of 20 × 20 */
const ICONS = {
  overview: "M3 11h5V3H3zM12 17h5V9h-5zM3 17h5v-3H3zM12 6h5V3h-5z",
  clients: "M10 10a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM4 17c.5-3.5 3-5 6-5s5.500 1.500 6 5",
  subscriptions: "M5 5h1M5 10h1M5 15h1M9 5h7M9 10h7M9 15h7",
  time: "M10 6v4.500l3 1.800M3.200 8.200A7 7 0 1 1 3 11M3 4v4h4",
  events: "M10 3l7 13H3zM10 8.500v3.500M10 14v.2",
  health: "M2.500 10.500h3.500l2-5 3.500 9 2-4h4",
  cluster: "M10 6.500a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM4.500 17a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM15.500 17a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM9 6.200L5.500 13.200M11 6.200l3.500 7M6.500 15h7",
  sun: "M10 13a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM10 2v2M10 16v2M2 10h2M16 10h2M4.300 4.300l1.400 1.400M14.300 14.300l1.400 1.400M4.300 15.700l1.400-1.400M14.300 5.700l1.400-1.400",
  moon: "M16 11.500A6.500 6.500 0 0 1 8.500 4 6.500 6.500 0 1 0 16 11.500z",
  system: "M3 4h14v9H3zM7 17h6M10 13v4",
  bell: "M5 14V9a5 5 0 0 1 10 0v5l1 1H4zM8.500 17.500h3",
  menu: "M3 5h14M3 10h14M3 15h14",
  out: "M8 4H4v12h4M12 7l3 3-3 3M15 10H8",
};

/** @param {{name: string}} props */
export function Icon({ name }) {
  return html`<svg viewBox="0 0 20 20" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true" focusable="false"><path d=${ICONS[name]} /></svg>`;
}

const PAGES = [
  { path: "/", name: "overview" }, { path: "/clients", name: "clients" }, { path: "/subscriptions", name: "subscriptions" },
  { path: "/time", name: "time" }, { path: "/events", name: "events" }, { path: "/health", name: "health" },
];

/** The pages that this node has. */
export function pages() {
  return node.value?.cluster ? [...PAGES, { path: "/cluster", name: "cluster" }] : PAGES;
}

/** @param {string} path */
export function isAt(path) {
  const here = route.value.path;
  return path === "/" ? here === "/" : here === path || here.startsWith(`${path}/`);
}

/** The node's state as a shape and a word. What is spoken changes with the state, not with each second. */
export function nodeState() {
  const age = frameAge_s.value;
  const state = node.value?.state ?? "unknown";
  if (connection.value === "lost") return { kind: "bad", text: T.state.lost, spoken: T.state.lost };
  if (state === "away") return { kind: "bad", text: T.state.away, spoken: T.state.away };
  if (isOld.value && age !== null) return { kind: "old", text: T.state.old(duration(Math.floor(age))), spoken: T.state.silent };
  const kind = { taking: "good", starting: "warn", refusing: "bad", stopping: "warn" }[/** @type {string} */ (state)] ?? "off";
  const text = /** @type {any} */ (T.state)[state] ?? state;
  return { kind, text, spoken: text };
}

/** What is said above the page while its numbers are old. */
export function OldNotice() {
  const age = frameAge_s.value;
  if (connection.value === "lost") return html`<${Notice} kind="bad">${T.state.lostLong}</${Notice}>`;
  if (node.value?.state === "away") return html`<${Notice} kind="bad">${T.state.awayLong}</${Notice}>`;
  if (!isOld.value || age === null) return null;
  return html`<${Notice} kind="old">${T.state.oldLong(duration(Math.floor(age)))}</${Notice}>`;
}

/** @param {{page: any}} props */
export function Frame({ page }) {
  const [open, setOpen] = useState(false);
  const state = nodeState();
  const ringing = alarms.value.filter((alarm) => !alarm.muted_until_us || alarm.muted_until_us < now_us());
  return html`<div class="frame">
    <a class="skip" href="#page" onClick=${(/** @type {Event} */ event) => {
      event.preventDefault();
      document.getElementById("page")?.focus();
    }}>${T.skip}</a>
    <header class="top"><div class="brand">
      <button type="button" class="button bare icon menu-button" aria-label=${T.nav.menu} aria-expanded=${open} aria-controls="nav" onClick=${() => setOpen(!open)}><${Icon} name="menu" /></button>
      <a href="/" aria-label=${T.product}><img src="/static/icon.svg" alt="" /><span class="word">${T.product}</span></a>
    </div>
    <div class="bar">
      <span id="node-state"><${State} kind=${state.kind}>${state.text}</${State}></span>
      <span role="status" class="visually-hidden">${state.spoken}</span>
      <span class="spring"></span>
      <${SearchBox} />
      <span class="spring only-wide"></span>
      <a class="button bare only-wide" href="/health" aria-label=${T.bar.alarms(ringing.length)} title=${T.bar.alarms(ringing.length)}><${Icon} name="bell" />${ringing.length > 0 && html`<span class="count">${ringing.length}</span>`}</a>
      <${Zone} class="only-wide" />
      <${ThemeButton} />
      <span class="only-wide who-name soft small">${me.value && T.bar.who(me.value.name, me.value.role)}</span>
      <${Logout} class="only-wide" />
    </div></header>
    <nav id="nav" aria-label=${T.nav.label} data-open=${open}>
      <ul>${pages().map(({ path, name }) => html`<li key=${path}><a href=${path} aria-current=${isAt(path) ? "page" : undefined} onClick=${() => setOpen(false)}>
        <${Icon} name=${name} />${/** @type {any} */ (T.nav)[name]}${name === "health" && ringing.length > 0 && html`<span class="count">${ringing.length}</span>`}</a></li>`)}</ul>
      <div class="foot small soft">
        ${node.value && html`<div>${node.value.version} ${node.value.compiled ? T.overview.compiled : T.overview.interpreted}</div>`}
        <div class="only-narrow"><span>${me.value && T.bar.who(me.value.name, me.value.role)}</span><${Zone} /><${Logout} /></div>
      </div>
    </nav>
    <main id="page" tabindex="-1">${page}</main>
  </div>`;
}

/** @param {{class?: string}} props */
function Zone(props) {
  const utc = timeZone.value === "utc";
  return html`<button type="button" class=${`button bare ${props.class ?? ""}`} aria-label=${`${T.bar.zone} ${zoneName()}`} title=${`${T.bar.zone} ${zoneName()}`}
    onClick=${() => { timeZone.value = utc ? "local" : "utc"; }}>${utc ? T.bar.utc : T.bar.local}</button>`;
}

function ThemeButton() {
  const choice = /** @type {"system" | "light" | "dark"} */ (chosen.value);
  const icon = { system: "system", light: "sun", dark: "moon" }[choice];
  return html`<button type="button" class="button bare icon" aria-label=${T.bar.theme[choice]} title=${T.bar.theme[choice]} onClick=${nextTheme}><${Icon} name=${icon} /></button>`;
}

/** @param {{class?: string}} props */
function Logout(props) {
  const out = async () => {
    await post("logout").catch(() => undefined);
    location.assign("/login");
  };
  return html`<button type="button" class=${`button bare icon ${props.class ?? ""}`} aria-label=${T.bar.logout} title=${T.bar.logout} onClick=${out}><${Icon} name="out" /></button>`;
}
