/**
 * The runbook: what to do when something is wrong, as the documents have it. An alarm leads to its part.
 *
 *     /health/runbook#the-disk-is-full
 */
import { html, useEffect, useMemo, useState } from "../parts/html.js";
import { ApiError } from "../parts/api.js";
import { blocksOf, Markdown } from "../parts/markdown.js";
import { route } from "../parts/router.js";
import { Problem } from "../parts/text.js";
import { T } from "../texts.js";

/** Beside the modules of the page: the same text as docs/runbook.md. */
const SOURCE = "/static/runbook.md";
export const RUNBOOK = "/health/runbook";

/**
 * The address of a part of the runbook.
 * @param {string} named such as docs/runbook.md#the-disk-is-full
 */
export function runbookAddress(named) {
  const at = named.indexOf("#");
  return at < 0 ? RUNBOOK : `${RUNBOOK}${named.slice(at)}`;
}

export function Runbook() {
  const [text, setText] = useState(/** @type {string | null} */ (null));
  const [error, setError] = useState(/** @type {ApiError | null} */ (null));
  const { hash } = route.value;
  useEffect(() => {
    fetch(SOURCE).then(async (answer) => {
      if (answer.ok) setText(await answer.text());
      else setError(new ApiError(answer.status, answer.statusText));
    }, () => setError(new ApiError(0, T.problem.noConsole)));
  }, []);
  const blocks = useMemo(() => blocksOf(text ?? "").filter((block) => block.kind !== "heading" || block.level > 1), [text]);
  const parts = blocks.flatMap((block) => (block.kind === "heading" && block.level === 2 ? [block] : []));
  useEffect(() => {
    const part = text === null ? null : document.getElementById(hash.slice(1));
    part?.scrollIntoView();
    part?.focus({ preventScroll: true });
  }, [text, hash]);
  return html`<div class="page runbook-page">
    <div class="page-head"><h1>${T.health.runbook}</h1><p class="soft">${T.health.runbookIntro}</p><span class="spring"></span><a href="/health">${T.health.title}</a></div>
    <${Problem} error=${error} />
    ${text === null && !error && html`<p class="empty">${T.table.loading}</p>`}
    ${text !== null && html`<div class="runbook"><nav aria-label=${T.health.runbookParts}><ul>${parts.map((part) => html`<li key=${part.id}><a href=${`#${part.id}`}>${part.text}</a></li>`)}</ul></nav>
      <article class="panel panel-body"><${Markdown} blocks=${blocks} /></article></div>`}
  </div>`;
}
