/**
 * The console's page: finds the page of an address and draws it within the frame.
 *
 * A page is a module below pages/ that exports `Page`. It gets the segments of the path behind its own, decoded.
 * It is loaded when it is first shown.
 */
import { Dialogs } from "./parts/dialog.js";
import { Frame, OldNotice } from "./parts/frame.js";
import { Fragment, html, render, signal, useEffect, useErrorBoundary, useState } from "./parts/html.js";
import { me, start } from "./parts/live.js";
import { route, segments } from "./parts/router.js";
import { Notice, Problem } from "./parts/text.js";
import { T } from "./texts.js";
import "./parts/theme.js";

/** @type {Record<string, {title: string, load: () => Promise<{Page: any}>}>} by the first segment of the path */
const PAGES = {
  "": { title: T.nav.overview, load: () => import("./pages/overview.js") },
  clients: { title: T.nav.clients, load: () => import("./pages/clients.js") },
  client: { title: T.nav.clients, load: () => import("./pages/client.js") },
  subscriptions: { title: T.nav.subscriptions, load: () => import("./pages/subscriptions.js") },
  time: { title: T.nav.time, load: () => import("./pages/time.js") },
  events: { title: T.nav.events, load: () => import("./pages/events.js") },
  health: { title: T.nav.health, load: () => import("./pages/health.js") },
  cluster: { title: T.nav.cluster, load: () => import("./pages/cluster.js") },
  login: { title: T.login.title, load: () => import("./pages/login.js") },
};

/** Pages that are there already, so that going back to one does not flicker. @type {Record<string, any>} */
const loaded = {};

/** @param {string} path */
function find(path) {
  const [first = "", ...rest] = segments(path);
  if (first === "clients" && rest[0]) return { name: "client", rest };
  return { name: first ?? "", rest };
}

/** @param {{name: string, rest: (string | null)[]}} props */
function Show({ name, rest }) {
  const [Page, setPage] = useState(() => loaded[name]);
  const [failed, forgive] = useErrorBoundary((error) => console.error(error));
  useEffect(() => {
    const page = PAGES[name];
    if (!page || Page) return;
    page.load().then((module) => {
      loaded[name] = module.Page;
      setPage(() => module.Page);
    });
  }, []);
  useEffect(() => {
    document.title = PAGES[name] ? `${rest[0] && name === "client" ? `${rest[0].slice(0, 60)} · ` : ""}${PAGES[name].title} · ${T.product}` : T.product;
  }, [rest.join("/")]);
  if (failed) {
    return html`<${Notice} kind="bad" role="alert" action=${html`<button type="button" class="button" onClick=${forgive}>${T.problem.again}</button>`}>
      <strong>${T.problem.broken}</strong> ${String(failed)}</${Notice}>`;
  }
  return Page ? html`<${Page} segments=${rest} />` : html`<div class="page" aria-busy="true"></div>`;
}

function NotFound() {
  return html`<div class="page"><h1>${T.problem.notFoundTitle}</h1><p>${T.problem.notFound} <a href="/">${T.nav.overview}</a></p></div>`;
}

/** Why the page could not begin. */
const failed = signal(/** @type {any} */ (null));

function App() {
  const { name, rest } = find(route.value.path);
  const known = Object.hasOwn(PAGES, name) && !(name === "client" && !rest[0]);
  const page = known ? html`<${Show} key=${name} name=${name} rest=${rest} />` : html`<${NotFound} />`;
  if (name === "login") return html`<main>${page}</main>`;
  if (!me.value) return html`<div class="boot">${failed.value ? html`<${Problem} error=${failed.value} again=${begin} />` : T.product}</div>`;
  return html`<${Fragment}><${Frame} page=${html`<div><${OldNotice} />${page}</div>`} /><${Dialogs} /></${Fragment}>`;
}

function begin() {
  failed.value = null;
  start().catch((error) => { failed.value = error; });
}

const place = /** @type {HTMLElement} */ (document.getElementById("app"));
place.replaceChildren();
render(html`<${App} />`, place);
if (location.pathname !== "/login") begin();
