/**
 * The state at A: the newest message of every topic, with its age; and against B: what came, fell silent or changed.
 *
 * B may lie before or after A. The earlier of the two is asked for as `a`, the later as `b`: so "came" and "silent" read in the
 * direction of time.
 */
import { classes, html, useEffect, useMemo, useState } from "../parts/html.js";
import { age, duration, number, short, time, timeOfDay, toText } from "../parts/format.js";
import { Choice, Name, Problem } from "../parts/text.js";
import { askable, glance } from "../parts/payload_bytes.js";
import { BESIDE } from "./time_messages.js";
import { Grid } from "./time_grid.js";
import { useAnswer } from "./time_questions.js";
import { T } from "../texts.js";

/** @typedef {import("./time_questions.js").Message} Message */
/** @typedef {Message & {age_us: number}} Known */
/** @typedef {"same" | "changed" | "came" | "silent"} Kind */
/**
 * @typedef {object} Row
 * @property {Message} message the newest there is: at A, or at the earlier moment if it fell silent
 * @property {Kind} kind
 * @property {number | null} age_us
 * @property {Message | null} earlier
 * @property {Message | null} later
 * @property {{path: string, a: unknown, b: unknown}[]} paths
 * @property {string} [class]
 */

/**
 * Rows of the state, with what a comparison says about each.
 * @param {any} state the answer of history/state, or null
 * @param {any} comparison the answer of history/compare, or null
 * @param {boolean} aIsLater
 * @returns {Row[]}
 */
export function rowsOf(state, comparison, aIsLater) {
  /** @type {Map<string, Row>} */
  const rows = new Map();
  for (const known of /** @type {Known[]} */ (state?.topics ?? [])) {
    rows.set(toText(known.topic), { message: known, kind: "same", age_us: known.age_us, earlier: null, later: null, paths: [] });
  }
  if (comparison) {
    const put = (/** @type {Message} */ message, /** @type {Partial<Row> & {kind: Kind}} */ more) => {
      const key = toText(message.topic);
      const before = rows.get(key);
      rows.set(key, { message: before?.message ?? message, age_us: before?.age_us ?? null, earlier: null, later: null, paths: [], ...more });
    };
    for (const one of comparison.changed) put(aIsLater ? one.b : one.a, { kind: "changed", earlier: one.a, later: one.b, paths: one.paths ?? [] });
    for (const one of comparison.came) put(one, { kind: "came", later: one });
    for (const one of comparison.silent) put(one, { kind: "silent", earlier: one });
  }
  return [...rows].sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)).map(([, row]) => ({ ...row, class: `kind-${row.kind}` }));
}

/**
 * @param {object} props
 * @param {{answer: any, error: any, busy: boolean}} props.state
 * @param {{answer: any, error: any, busy: boolean}} props.comparison
 * @param {number} props.at
 * @param {number | null} props.b
 * @param {number} props.lookBack_s
 * @param {boolean} props.retained
 * @param {(seconds: number) => void} props.onLookBack
 * @param {(retained: boolean) => void} props.onRetained
 * @param {(topic: string) => void} props.onPlot
 * @param {(message: Message) => void} props.onMessage
 * @param {string[]} props.plotted
 * @param {boolean} props.quiet A moves by itself: nothing is spoken meanwhile
 */
export function StatePanel({ state, comparison, at, b, lookBack_s, retained, onLookBack, onRetained, onPlot, onMessage, plotted, quiet }) {
  const aIsLater = b === null || at >= b;
  // Then nothing came between both moments that the look-back of the later one does not see.
  const covered = b !== null && Math.abs(at - b) <= lookBack_s * 1e6;
  const compared = b === null ? null : comparison.answer;
  const rows = useMemo(() => rowsOf(state.answer, compared, aIsLater), [state.answer, compared, aIsLater]);
  const [kind, setKind] = useState("all");
  const [active, setActive] = useState(/** @type {string | null} */ (null));
  useEffect(() => { if (b === null) setKind("all"); }, [b === null]);
  const count = (/** @type {Kind} */ one) => rows.filter((row) => row.kind === one).length;
  const shown = kind === "all" ? rows : rows.filter((row) => row.kind === kind);
  const chosen = shown.find((row) => toText(row.message.topic) === active) ?? null;
  const columns = [
    { key: "topic", label: "topic", cell: (/** @type {Row} */ row) => html`<${Name} value=${toText(row.message.topic)} />` },
    { key: "value", label: "value at A", class: "mono", cell: (/** @type {Row} */ row) => (isAtA(row, aIsLater) ? html`<bdi>${glance(row.message.payload, 60)}</bdi>` : html`<span class="soft">–</span>`) },
    { key: "age", label: "age", class: "number", cell: (/** @type {Row} */ row) => (row.age_us === null ? html`<span class="soft">–</span>` : ageText(row.age_us, b !== null)) },
    ...(b === null ? [] : [{ key: "against", label: "against B", class: "against", cell: (/** @type {Row} */ row) => html`<${Against} row=${row} lookBack_s=${lookBack_s} covered=${covered} />` }]),
  ];
  const options = [{ value: "all", label: `All ${number(rows.length)}` },
    ...(/** @type {[Kind, string][]} */ ([["changed", "Changed"], ["came", "Came"], ["silent", "Silent"]])).map(([value, label]) => ({ value, label: `${label} ${number(count(value))}` }))];
  return html`<section class="panel time-state" aria-labelledby="state-title" aria-busy=${state.busy || comparison.busy}>
    <div class="panel-head">
      <h2 id="state-title">${retained ? "Retained" : "State"} at A <span class="mono">${time(at, "ms")}</span></h2>
      <span class="spring"></span>
      <label class="check"><input type="checkbox" checked=${retained} onChange=${(/** @type {any} */ event) => onRetained(event.target.checked)} /> retained only</label>
    </div>
    ${b !== null && html`<div class="compare-line"><span class="soft small">${compareText(at, b)}</span><${Choice} label="Show topics" value=${kind} options=${options} onChange=${setKind} /></div>`}
    <${Problem} error=${state.error ?? comparison.error} beside=${BESIDE} />
    <${Grid} name=${classes("grid-state", b !== null && "grid-compare")} label="State at A" columns=${columns} rows=${shown} rowKey=${(/** @type {Row} */ row) => toText(row.message.topic)} active=${active}
      onActive=${(/** @type {Row} */ row) => setActive(toText(row.message.topic))} reset=${kind}
      empty=${state.error ? "no answer" : state.busy ? "asking …" : kind === "all" ? "no topic spoke in the time that was looked back" : "none"} />
    <div class="time-foot" role="status" aria-live=${quiet ? "off" : "polite"}>${footText(state.answer, comparison.answer, lookBack_s)}
      ${state.answer && state.answer.stopped === "look_back" && html` <button type="button" class="button quiet" onClick=${() => onLookBack(lookBack_s * 4)}>Look back further</button>`}</div>
    ${chosen && html`<${Details} row=${chosen} later=${b === null ? at : Math.max(at, b)} plotted=${plotted} onPlot=${onPlot} onMessage=${onMessage} onClose=${() => setActive(null)} lookBack_s=${lookBack_s} />`}
  </section>`;
}

/** @param {number} age_us @param {boolean} narrow one unit is enough */
function ageText(age_us, narrow) {
  return narrow ? age(0, age_us) : duration(Math.floor(age_us / 1e6) || age_us / 1e6);
}

/** @param {Row} row @param {boolean} aIsLater */
function isAtA(row, aIsLater) {
  return !(row.kind === "silent" && aIsLater) && !(row.kind === "came" && !aIsLater);
}

/** @param {number} at @param {number} b */
function compareText(at, b) {
  const [from, to, first, second] = at >= b ? [b, at, "B", "A"] : [at, b, "A", "B"];
  return `from ${first} ${time(from)} to ${second} ${timeOfDay(to)}, ${duration((to - from) / 1e6)} later`;
}

/** @param {any} state @param {any} comparison @param {number} lookBack_s */
function footText(state, comparison, lookBack_s) {
  if (!state) return "";
  const back = duration(Math.max(0, (state.at_us - state.looked_back_to_us) / 1e6));
  const why = /** @type {Record<string, string>} */ ({
    look_back: `looked back ${back}`, topics: `stopped at ${number(state.topics.length)} topics`, time: `stopped after 2 s, ${back} back`,
    end: "looked back to the beginning",
  })[state.stopped] ?? `looked back ${duration(lookBack_s)}`;
  const same = comparison ? `, ${number(comparison.same)} the same at both` : "";
  return `${number(state.topics.length)} ${state.topics.length === 1 ? "topic" : "topics"}, ${why}${state.complete ? ", complete" : ""}${same}.`;
}

/** @param {{row: Row, lookBack_s: number, covered: boolean}} props */
function Against({ row, lookBack_s, covered }) {
  if (row.kind === "same") return html`<span class="soft">same</span>`;
  if (row.kind === "came") return html`<span class="kind"><span aria-hidden="true">＋</span> came</span>`;
  if (row.kind === "silent") return html`<span class="kind"><span aria-hidden="true">∅</span> ${covered ? T.stateAt.silentSince(timeOfDay(row.earlier?.at_us, "s")) : T.stateAt.silentFor(duration(lookBack_s))}</span>`;
  const [one] = row.paths;
  const more = row.paths.length > 1 ? html` <span class="soft">+${number(row.paths.length - 1)}</span>` : "";
  const [before, after] = one ? [shortValue(one.a), shortValue(one.b)] : [glance(row.earlier?.payload, 24), glance(row.later?.payload, 24)];
  return html`<span class="kind mono">${one && one.path !== "$" && html`<span class="soft">${one.path} </span>`}<bdi>${before}</bdi> → <bdi>${after}</bdi>${more}</span>`;
}

/** @param {unknown} value */
function shortValue(value) {
  if (value === undefined) return "–";
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return glance({ text }, 24);
}

/**
 * @param {{row: Row, later: number, plotted: string[], onPlot: (topic: string) => void, onMessage: (message: Message) => void, onClose: () => void, lookBack_s: number}} props
 */
function Details({ row, later, plotted, onPlot, onMessage, onClose, lookBack_s }) {
  const topic = askable(row.message.topic);
  // What came between both moments is in no answer: the topic is asked for its last message.
  const last = useAnswer("history/messages", row.kind === "silent" && topic !== null ? { filter: topic, at: later, direction: "older", limit: 1 } : null);
  const lastAt = last.answer?.messages[0]?.at_us;
  return html`<div class="inspector" role="region" aria-label="The chosen topic">
    <div class="inspector-head"><h3><${Name} value=${toText(row.message.topic)} wrap limit=${600} /></h3>
      <button type="button" class="button bare icon" aria-label="Close the topic" onClick=${onClose}>✕</button></div>
    ${row.kind === "silent" && html`<p>${lastAt ? `${T.stateAt.silentSince(time(lastAt, "ms"))}: ` : ""}${T.stateAt.nothing(duration(lookBack_s))}</p>`}
    <${Problem} error=${last.error} beside=${BESIDE} />
    ${row.kind === "came" && html`<p>Nothing came within ${duration(lookBack_s)} before the earlier moment.</p>`}
    ${row.kind === "changed" && html`<table class="list"><thead><tr><th scope="col">path</th><th scope="col">earlier</th><th scope="col">later</th></tr></thead>
      <tbody>${(row.paths.length ? row.paths : [{ path: "payload", a: glance(row.earlier?.payload), b: glance(row.later?.payload) }]).slice(0, 200).map((one) => html`<tr key=${one.path}>
        <td class="mono"><${Name} value=${one.path} /></td><td class="mono">${shortValue(one.a)}</td><td class="mono">${shortValue(one.b)}</td></tr>`)}</tbody></table>`}
    <p class="inspector-links">
      <button type="button" class="button quiet" onClick=${() => onMessage(row.message)}>Show the message</button>
      ${topic !== null && html`<button type="button" class="button quiet" aria-pressed=${plotted.includes(topic)} onClick=${() => onPlot(topic)}>
        ${plotted.includes(topic) ? "Take out of the plot" : "Plot it"}</button>
        <span class="soft small">${short(row.message.bytes)} B, QoS ${row.message.qos}</span>`}</p>
  </div>`;
}
