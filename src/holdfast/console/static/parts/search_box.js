/**
 * The search box of the bar: `/` leads to it; it finds pages, clients and topics. A combobox with a list of hits.
 */
import { get } from "./api.js";
import { clientAddress } from "./client_row.js";
import { html, useEffect, useRef, useState } from "./html.js";
import { may, node } from "./live.js";
import { link, navigate } from "./router.js";
import { useSettled } from "./resource.js";
import { Name } from "./text.js";
import { pages } from "./frame.js";
import { T } from "../texts.js";

/** @typedef {{kind: string, name: string, to: string}} Hit */

/** @param {string} text @returns {Hit[]} what can be said without asking */
function ownHits(text) {
  const found = pages().filter((page) => /** @type {any} */ (T.nav)[page.name].toLowerCase().includes(text.toLowerCase()));
  return found.map((page) => ({ kind: T.search.page, name: /** @type {any} */ (T.nav)[page.name], to: page.path }));
}

/** @param {string} text @returns {Hit[]} */
function topicHits(text) {
  const hits = [{ kind: T.search.filter, name: text, to: link("/time", { f: text }) }];
  if (!/[+#]/.test(text)) hits.push({ kind: T.search.who, name: text, to: link("/subscriptions", { topic: text }) });
  return hits;
}

/**
 * @param {string} text
 * @param {AbortSignal} signal
 * @returns {Promise<Hit[]>}
 */
async function askedHits(text, signal) {
  const clients = get("clients", { q: text, limit: 6 }, { signal })
    .then((answer) => answer.items.map((/** @type {any} */ row) => ({ kind: T.search.client, name: row.session_id, to: clientAddress(row.session_id) })));
  const topics = may("reader") && node.value?.has_past
    ? get("history/topics", { q: text, limit: 4 }, { signal })
      .then((answer) => answer.topics.map((/** @type {any} */ topic) => ({ kind: T.search.topic, name: topic.name, to: link("/time", { f: topic.name }) })))
    : Promise.resolve([]);
  const results = await Promise.allSettled([clients, topics]);
  return results.flatMap((result) => (result.status === "fulfilled" ? result.value : []));
}

export function SearchBox() {
  const [text, setText] = useState("");
  const [open, setOpen] = useState(false);
  const [asked, setAsked] = useState(/** @type {Hit[]} */ ([]));
  const [answered, setAnswered] = useState("");
  const [at, setAt] = useState(0);
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  const settled = useSettled(text.trim(), 150);

  useEffect(() => {
    const slash = (/** @type {KeyboardEvent} */ event) => {
      const target = /** @type {HTMLElement} */ (event.target);
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
      if (target.closest?.("input, textarea, select, [contenteditable]")) return;
      event.preventDefault();
      input.current?.focus();
      input.current?.select();
    };
    document.addEventListener("keydown", slash);
    return () => document.removeEventListener("keydown", slash);
  }, []);

  useEffect(() => {
    if (!settled) {
      setAsked([]);
      return undefined;
    }
    const control = new AbortController();
    askedHits(settled, control.signal).then((hits) => {
      if (control.signal.aborted) return;
      setAsked(hits);
      setAnswered(settled);
    });
    return () => control.abort();
  }, [settled]);

  const trimmed = text.trim();
  // A topic that nobody has seen may still be looked for; but nothing slips in above the clients that are on their way.
  const hits = trimmed ? [...ownHits(trimmed), ...asked, ...(trimmed.includes("/") || (answered === trimmed && asked.length === 0) ? topicHits(trimmed) : [])] : ownHits("");
  const chosen = Math.min(at, hits.length - 1);
  const go = (/** @type {Hit | undefined} */ hit) => {
    if (!hit) return;
    setOpen(false);
    setText("");
    navigate(hit.to);
    document.getElementById("page")?.focus();
  };
  const keys = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Escape") {
      setOpen(false);
      setText("");
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      setOpen(true);
      setAt((chosen + (event.key === "ArrowDown" ? 1 : -1) + hits.length) % Math.max(1, hits.length));
    } else if (event.key === "Enter") {
      go(hits[chosen]);
    } else {
      return;
    }
    event.preventDefault();
  };
  const listed = open && hits.length > 0;
  return html`<div class="search" role="search">
    <input ref=${input} type="text" role="combobox" aria-label=${T.bar.search} placeholder=${T.bar.search} aria-expanded=${listed} aria-controls="search-hits"
      aria-autocomplete="list" aria-activedescendant=${listed ? `search-hit-${chosen}` : undefined} autocomplete="off" spellcheck=${false} value=${text}
      onInput=${(/** @type {any} */ event) => { setText(event.target.value); setOpen(true); setAt(0); }} onFocus=${() => setOpen(true)} onBlur=${() => setOpen(false)} onKeyDown=${keys} />
    <kbd aria-hidden="true">/</kbd>
    ${listed && html`<ul class="search-hits" role="listbox" id="search-hits" aria-label=${T.search.hits(hits.length)}>
      ${hits.map((hit, i) => html`<li key=${`${hit.kind} ${hit.to}`} role="option" id=${`search-hit-${i}`} aria-selected=${i === chosen}
        onPointerDown=${(/** @type {Event} */ event) => { event.preventDefault(); go(hit); }} onPointerMove=${() => setAt(i)}>
        <span class="kind">${hit.kind}</span>${hit.kind === T.search.page ? hit.name : html`<${Name} value=${hit.name} limit=${80} />`}</li>`)}</ul>`}
  </div>`;
}
