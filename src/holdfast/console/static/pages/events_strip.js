/**
 * Events over time: a bar for each part of the range. A drag, or the sliders at both ends, choose a smaller range.
 */
import { number, time } from "../parts/format.js";
import { html, useState } from "../parts/html.js";
import { BucketTable, Strip } from "../parts/strip.js";
import { T } from "../texts.js";
import { isoShort } from "./time_view.js";

/** @typedef {import("../parts/strip_draw.js").Density} Density */
/** What the API says of events, and nothing of it is an estimate. @typedef {{from_us: number, to_us: number, step_us: number, counts: number[], total: number}} Counts */

/**
 * @param {object} props
 * @param {Counts} props.density
 * @param {boolean} props.chosen whether it is another range than the one that the page begins with
 * @param {(since: string, until: string) => void} props.onRange
 */
export function EventsStrip({ density: counts, chosen, onRange }) {
  const [asTable, setAsTable] = useState(false);
  const [draft, setDraft] = useState(/** @type {{from: number, to: number} | null} */ (null));
  const view = { from: counts.from_us, to: counts.to_us };
  /** @type {any} */
  const density = { ...counts, errors: [], exact: true, gaps: [], lost_before_us: null, lost_at_most: 0, erased_at_most: 0 };
  const choose = (/** @type {{from: number, to: number}} */ range) => {
    setDraft(null);
    onRange(isoShort(range.from), isoShort(range.to));
  };
  const shown = draft ?? view;
  const edge = (/** @type {"from" | "to"} */ name) => (/** @type {number} */ at, /** @type {boolean} */ settled) => {
    const next = { ...shown, [name]: at };
    if (settled) choose(next);
    else setDraft(next);
  };
  const handles = [
    { id: "from", label: T.events.begin, sign: "", value: shown.from, min: view.from, max: shown.to - 1000, onChange: edge("from") },
    { id: "to", label: T.events.end, sign: "", value: shown.to, min: shown.from + 1000, max: view.to, onChange: edge("to") },
  ];
  const describe = (/** @type {Density} */ held, /** @type {number} */ index) => T.events.total(number(held.counts[index] ?? 0));
  return html`<section class="panel strips events-strip" aria-label=${T.events.strip}>
    <div class="strip-between"><span class="range-text"><b>${time(view.from)} – ${time(view.to)}</b> <span class="soft">${T.events.stripHint}</span></span><span class="spring"></span>
      <span role="status"><b>${T.events.total(number(counts.total))}</b></span>
      ${chosen && html`<button type="button" class="button quiet" onClick=${() => onRange("-24h", "")}>${T.events.whole}</button>`}
      <button type="button" class="button quiet" aria-expanded=${asTable} onClick=${() => setAsTable(!asTable)}>${asTable ? T.events.hideTable : T.events.asTable}</button></div>
    <${Strip} name="events" label=${T.events.strip} view=${view} bounds=${view} density=${density} window=${draft} handles=${handles} onRange=${choose} describe=${describe} />
    ${asTable && html`<${BucketTable} density=${density} caption=${T.events.tableCaption} what=${T.events.what} />`}
  </section>`;
}
