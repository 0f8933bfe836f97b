/**
 * The marks above the bars: from gaps, generations and erasures of a density, and from events.
 */
import { html } from "../parts/html.js";
import { duration, number, time, visible } from "../parts/format.js";

/** @typedef {import("../parts/strip_draw.js").Density} Density */
/** @typedef {import("../parts/strip_draw.js").Mark} Mark */
/** @typedef {import("../parts/strip_draw.js").MarkKind} MarkKind */

/** Marks nearer than a 150th of the view are one. */
const PLACES = 150;

/**
 * @param {Density | null} density
 * @param {any[]} events
 * @param {{from: number, to: number}} view
 * @returns {Mark[]}
 */
export function marksOf(density, events, view) {
  /** @type {Mark[]} */
  const marks = [];
  for (const [from, to] of density?.gaps ?? []) {
    marks.push({ at_us: from, kind: "stopped", text: `▼ stopped at ${time(from)}` });
    marks.push({ at_us: to, kind: "restarted", text: `▲ restarted at ${time(to)}, after ${duration((to - from) / 1e6)}` });
  }
  for (const at of density?.generations_us ?? []) marks.push({ at_us: at, kind: "generation", text: `┊ a generation begins at ${time(at)}` });
  for (const at of density?.erasures_us ?? []) marks.push({ at_us: at, kind: "erased", text: `⌁ messages before it were erased at ${time(at)}` });
  const step = Math.max(1, (view.to - view.from) / PLACES);
  /** @type {Map<string, {at_us: number, kind: MarkKind, reasons: Map<string, number>, who: string}>} */
  const groups = new Map();
  for (const event of events) {
    if (event.at_us < view.from || event.at_us > view.to) continue;
    const kind = event.reason === "erased" ? "erased" : event.reason === "backup" ? "backup" : "drops";
    const key = `${kind}${Math.floor(event.at_us / step)}`;
    const group = groups.get(key) ?? { at_us: event.at_us, kind: /** @type {MarkKind} */ (kind), reasons: new Map(), who: event.client ?? "" };
    group.reasons.set(event.reason, (group.reasons.get(event.reason) ?? 0) + (event.count ?? 1));
    if (group.who !== (event.client ?? "")) group.who = "";
    groups.set(key, group);
  }
  const signs = { drops: "◆", erased: "⌁", backup: "▣" };
  for (const group of groups.values()) {
    const what = [...group.reasons].map(([reason, count]) => `${reason} ×${number(count)}`).join(", ");
    const sign = signs[/** @type {"drops"} */ (group.kind)];
    marks.push({ at_us: group.at_us, kind: group.kind, text: `${sign} ${what}${group.who ? `, ${visible(group.who, 40)}` : ""} at ${time(group.at_us)}` });
  }
  return marks.sort((a, b) => a.at_us - b.at_us);
}

const SIGNS = /** @type {[string, string][]} */ ([
  ["bar", "exact"], ["hatched", "estimate, ± on hover"], ["blank", "did not run"], ["lost", "taken by retention"], ["stopped", "stopped"],
  ["restarted", "restarted"], ["drops", "drops"], ["generation", "generation"], ["erased", "erased"], ["backup", "backup"],
]);

/** What the signs of the strips mean; those of marks only if there are such marks. @param {{marks: Mark[], estimated: boolean, lost: boolean}} props */
export function Legend({ marks, estimated, lost }) {
  const kinds = new Set(marks.map((mark) => mark.kind));
  const shown = SIGNS.filter(([name]) => name === "bar" || (name === "hatched" && estimated) || (name === "blank" && kinds.has("stopped")) || (name === "lost" && lost)
    || kinds.has(/** @type {MarkKind} */ (name)));
  return html`<ul class="strip-legend">${shown.map(([name, text]) => html`<li key=${name}><${Sign} name=${name} />${text}</li>`)}
    <li class="strip-help">drag: range · click: A · shift-click: B · wheel: zoom</li></ul>`;
}

/** @param {{name: string}} props */
function Sign({ name }) {
  const shapes = /** @type {Record<string, any>} */ ({
    bar: html`<rect x="3" y="2" width="8" height="12" class="sign-bar" />`,
    hatched: html`<rect x="3" y="2" width="8" height="12" class="sign-frame" /><path d="M3 8 9 2M3 13 11 5M6 14l5-5" class="sign-line" />`,
    blank: html`<rect x="2.5" y="2.5" width="9" height="11" class="sign-blank" />`,
    lost: html`<path d="M3 4h1M7 4h1M11 4h1M5 7h1M9 7h1M3 10h1M7 10h1M11 10h1M5 13h1M9 13h1" class="sign-dots" />`,
    stopped: html`<path d="M2 4h10L7 12z" class="sign-ink" />`,
    restarted: html`<path d="M2 12h10L7 4z" class="sign-ink" />`,
    drops: html`<path d="M7 3l5 5-5 5-5-5z" class="sign-warn" />`,
    generation: html`<path d="M7 1v2M7 5v2M7 9v2M7 13v2" class="sign-soft" />`,
    erased: html`<path d="M2 11l3-6 3 6 4-6" class="sign-zigzag" />`,
    backup: html`<rect x="3" y="4" width="8" height="8" class="sign-box" /><rect x="5.5" y="6.5" width="3" height="3" class="sign-ink" />`,
  });
  return html`<svg viewBox="0 0 14 16" aria-hidden="true">${shapes[name]}</svg>`;
}
