/**
 * The time machine: every message that is kept, at any moment.
 *
 *     fields: filter, zone, client, payload                      range, live, export, copy as
 *     strip of everything that is kept, with the range as a window
 *     strip of the range, with the moments A and B
 *     messages, newest at A            state at A, against B
 *     plot
 *
 * The address is the state (`time_view.js`). What moves before it is settled (a drag, a zoom, the preview) is a draft in the page.
 */
import { classes, html, useEffect, useMemo, useRef, useState } from "../parts/html.js";
import { get } from "../parts/api.js";
import { duration, time, timeZone, toText, zoneName } from "../parts/format.js";
import { may, node } from "../parts/live.js";
import { navigate, route } from "../parts/router.js";
import { BucketTable, Strip, timeSpan } from "../parts/strip.js";
import { clamp, inside, zoomed } from "../parts/strip_scale.js";
import { Notice, Problem } from "../parts/text.js";
import { QuestionFields, RangeBar, Total } from "./time_bar.js";
import { Legend, marksOf } from "./time_marks.js";
import { BESIDE, MessagesPanel } from "./time_messages.js";
import { numberPaths, numericTopics, PlotPanel } from "./time_plot.js";
import { useAnswer, useDensity, useLive, useMessages } from "./time_questions.js";
import { around, edgesOf, firstB, resolved, shortcutOf, shortcutRange, wholeOf } from "./time_range.js";
import { PlayPanel } from "./time_play.js";
import { StatePanel } from "./time_state.js";
import { Transport, usePreview } from "./time_transport.js";
import { addressOf, LIVE_SPAN_S, MAX_PLOTS, PLOT_POINTS, readView } from "./time_view.js";

/** @typedef {import("./time_view.js").View} View */
/** @typedef {import("./time_range.js").Whole} Whole */
/** @typedef {import("./time_questions.js").Message} Message */
/** @typedef {import("../parts/strip_scale.js").Range} Range */
/** @typedef {View & {from: number, to: number, at: number}} Settled */

/** A zoom by the wheel becomes part of the address when it has rested this long. */
const REST_MS = 180;
/** How often it is asked what is kept, so that "now" moves on. */
const REFRESH_MS = 30_000;

export function Page() {
  const turn = useTurn(REFRESH_MS);
  const hasPast = node.value?.has_past !== false;
  const zones = useAnswer("history/zones", may("reader") && hasPast ? {} : null, { turn });
  const { search } = route.value;
  const whole = useMemo(() => zones.answer && wholeOf(zones.answer, new URLSearchParams(search).get("zone") ?? ""), [zones.answer, search]);
  const shown = may("reader") && hasPast && whole;
  return html`<div class="page time-page">
    ${!shown && html`<div class="page-head"><h1>Time machine</h1></div>`}
    ${!hasPast ? html`<${Notice}>This broker keeps everything in memory, so there is no past. Set <code>durability</code> to <code>"fsync"</code> in <code>[storage]</code> to keep one.</${Notice}>`
      : !may("reader") ? html`<${Notice} kind="warn">The past needs the role reader: payloads are part of it.</${Notice}>`
        : zones.error ? html`<${Problem} error=${zones.error} />`
          : !zones.answer ? html`<p class="soft" role="status">asking what is kept …</p>`
            : whole ? html`<${Machine} whole=${whole} zones=${zones.answer.zones} search=${search} />`
              : html`<${Notice}>No message is stored yet. The first one will be here.</${Notice}>`}
  </div>`;
}

/** @param {Whole} whole */
function keptText(whole) {
  return `kept since ${time(whole.oldest_us)} ${timeZone.value === "utc" ? "UTC" : zoneName()}, ${duration((whole.now_us - whole.oldest_us) / 1e6)}`;
}

/** @param {{whole: Whole, zones: any[], search: string}} props */
function Machine({ whole, zones, search }) {
  const given = useMemo(() => readView(search, whole.range.to), [search, whole.range.to]);
  const view = /** @type {Settled} */ (useMemo(() => resolved(given, whole), [given, whole]));
  const [draft, setDraft] = useState(/** @type {Partial<Settled> | null} */ (null));
  const [playing, setPlaying] = useState(false);
  const [speed, setSpeed] = useState(10);
  const [chosen, setChosen] = useState(/** @type {Message | null} */ (null));
  const [asTable, setAsTable] = useState(false);
  const change = (/** @type {Partial<View>} */ patch, push = true) => {
    setDraft(null);
    navigate(addressOf({ ...view, tz: timeZone.value === "local" ? "local" : "utc", ...patch }), { replace: !push });
  };
  useAddress(given, view, change);

  const live = view.mode === "live";
  const following = useLive(live ? { filter: view.filter, zone: view.zone, client: view.client, payload: view.payload } : null);
  const head = (Math.floor((following.head_us || whole.now_us) / 1e6) + 1) * 1e6;
  const moved = live ? { from: head - LIVE_SPAN_S * 1e6, to: head, at: head } : draft ?? {};
  const shown = { ...view, ...moved };
  const range = { from: shown.from, to: shown.to };
  const asked = live ? range : { from: view.from, to: view.to };
  const bounds = useMemo(() => ({ from: Math.min(whole.range.from, view.from), to: Math.max(whole.range.to, view.to) }), [whole, view.from, view.to]);

  const question = { filter: view.filter, zone: view.zone };
  const buckets = bucketsFor(6);
  const all = useDensity({ ...question, from: whole.range.from, to: whole.range.to, buckets: bucketsFor(4) });
  const part = useDensity({ ...question, from: asked.from, to: asked.to, buckets }, { news: following.seen, patient: live });
  const patient = live || playing || draft?.at !== undefined || draft?.b !== undefined;
  const searching = Boolean(view.client || view.payload);
  const messages = useMessages(live ? null : { ...question, client: view.client, payload: view.payload, from: view.from, to: view.to, at: shown.at }, { patient });
  const state = useAnswer("history/state", { ...question, at: shown.at, look_back_s: view.lookBack_s, retained: view.retained ? 1 : 0 }, { patient });
  const pair = shown.b === null ? null : [Math.min(shown.at, shown.b), Math.max(shown.at, shown.b)];
  const comparison = useAnswer("history/compare", pair && { ...question, a: pair[0], b: pair[1], look_back_s: view.lookBack_s }, { patient });
  const topics = view.plot.length ? view.plot : /[+#]/.test(view.filter) ? [] : [view.filter];
  const plot = useAnswer("history/plot", topics.length ? { topic: topics, path: view.path, from: asked.from, to: asked.to, points: PLOT_POINTS } : null, { patient: live });
  const wholeEvents = useAnswer("events", { since: whole.range.from, until: whole.range.to, limit: 1000 });
  const rangeEvents = useAnswer("events", { since: asked.from, until: asked.to, limit: 1000 }, { patient: live });

  const allMarks = useMemo(() => marksOf(all.density, eventsOf(wholeEvents.answer), whole.range), [all.density, wholeEvents.answer, whole]);
  const partMarks = useMemo(() => marksOf(part.density, eventsOf(rangeEvents.answer), asked), [part.density, rangeEvents.answer, asked.from, asked.to]);
  const hits = useMemo(() => (searching ? [...messages.newer, ...messages.older].map((one) => one.at_us) : []), [searching, messages.newer, messages.older]);
  const errors = errorsOf(given.wrong, [part.error, all.error, messages.error, state.error, comparison.error]);
  const gone = [part.error, messages.error, state.error, comparison.error].find((error) => error?.status === 410);
  const said = [...(live ? [] : edgesOf(range, view.b, whole)), ...(errors.from ? [errors.from] : []), ...(errors.to ? [errors.to] : [])];

  usePreview({ playing: playing && !live, speed, at: shown.at, end: view.to,
    onMove: (at) => setDraft({ at }), onEnd: () => { setPlaying(false); change({ at: view.to }, false); } });

  const rest = useRef(/** @type {ReturnType<typeof setTimeout> | undefined} */ (undefined));
  useEffect(() => () => clearTimeout(rest.current), []);
  const setRange = (/** @type {Range} */ wanted, push = true) => {
    const to = inside(wanted, bounds);
    change({ ...to, at: push ? to.to : clamp(shown.at, to.from, to.to), mode: "" }, push);
  };
  const zoom = (/** @type {Range} */ wanted) => {
    const to = inside(wanted, bounds);
    setPlaying(false);
    setDraft({ ...to, at: clamp(shown.at, to.from, to.to) });
    clearTimeout(rest.current);
    rest.current = setTimeout(() => change({ ...to, at: clamp(shown.at, to.from, to.to), mode: "" }, false), REST_MS);
  };
  const setA = (/** @type {number} */ at) => {
    setPlaying(false);
    change({ ...around({ from: view.from, to: view.to }, at), at, mode: "" });
  };
  const moment = (/** @type {number} */ at, /** @type {boolean} */ second) => (second ? change({ b: at }) : setA(at));
  const play = (/** @type {boolean} */ on) => {
    if (on && shown.at >= view.to) setDraft({ at: view.from });
    if (!on) change({ at: shown.at }, false);
    setPlaying(on);
  };
  const step = async (/** @type {"older" | "newer"} */ way) => {
    setPlaying(false);
    const at = way === "older" ? shown.at - 1 : shown.at;
    const answer = await get("history/messages", { ...question, client: view.client, payload: view.payload, from: view.from, to: view.to, at, direction: way, limit: 1 }).catch(() => null);
    const next = answer?.messages[0];
    if (next) {
      setChosen(next);
      change({ at: next.at_us }, false);
    }
  };
  const togglePlot = (/** @type {string} */ topic) => change({ plot: topics.includes(topic) ? topics.filter((one) => one !== topic) : [...topics, topic].slice(0, MAX_PLOTS) }, false);
  const numeric = useMemo(() => numericTopics(state.answer?.topics ?? [], topics), [state.answer, topics.join("\n")]);
  const paths = useMemo(() => numberPaths((state.answer?.topics ?? []).find((/** @type {any} */ one) => topics.includes(toText(one.topic)))?.payload), [state.answer, topics.join("\n")]);
  const edge = (/** @type {"from" | "to"} */ name) => (/** @type {number} */ at, /** @type {boolean} */ settled) => {
    const to = { ...range, [name]: at };
    if (settled) change({ ...to, at: clamp(shown.at, to.from, to.to), mode: "" }, false);
    else setDraft({ ...to, at: clamp(shown.at, to.from, to.to) });
  };
  const momentHandle = (/** @type {"at" | "b"} */ name) => (/** @type {number} */ at, /** @type {boolean} */ settled) => {
    setPlaying(false);
    if (settled) change({ [name]: at }, false);
    else setDraft({ [name]: at });
  };
  const wholeHandles = live ? [] : [
    { id: "from", label: "Beginning of the range", sign: "", value: range.from, min: bounds.from, max: range.to - 1000, onChange: edge("from") },
    { id: "to", label: "End of the range", sign: "", value: range.to, min: range.from + 1000, max: bounds.to, onChange: edge("to") },
  ];
  const rangeHandles = live ? [] : [
    { id: "a", label: "Moment A", sign: "A", value: shown.at, min: range.from, max: range.to, onChange: momentHandle("at") },
    ...(shown.b === null ? [] : [{ id: "b", label: "Moment B", sign: "B", value: shown.b, min: Math.min(range.from, shown.b), max: Math.max(range.to, shown.b), onChange: momentHandle("b") }]),
  ];

  return html`<div class="time-machine">
    <div class="page-head time-head"><h1>Time machine</h1><p>${keptText(whole)}</p><span class="spring"></span>
      <${RangeBar} view=${view} density=${part.density} shown=${{ live, buckets, topics, zones }} shortcut=${live ? "" : shortcutOf(range, whole)}
        onShortcut=${(/** @type {string} */ name) => setRange(shortcutRange(name, whole))}
        onLive=${(/** @type {boolean} */ on) => change(on ? { mode: "live" } : { mode: "", ...range, at: range.to })} /></div>
    <${QuestionFields} view=${view} zones=${zones.map((one) => one.name)} errors=${errors} onChange=${change} />
    ${gone && html`<${Notice} kind="warn" role="alert" action=${gone.body?.border_us && html`<button type="button" class="button" onClick=${() => change({ from: gone.body.border_us, at: Math.max(view.at, gone.body.border_us) })}>Begin there</button>`}>
      <strong>Retention has passed this range while it was read.</strong> ${gone.body?.border_us ? `What is kept begins at ${time(gone.body.border_us, "ms")} now.` : gone.detail}</${Notice}>`}
    ${said.map((text) => html`<${Notice} key=${text} kind="old">${text}</${Notice}>`)}
    <${Problem} error=${part.error?.status === 410 ? null : part.error} beside=${BESIDE} />
    <section class="panel strips" aria-label="Strips of time" aria-busy=${part.busy || all.busy}>
      <${Strip} name="whole" label="Everything that is kept" view=${whole.range} bounds=${whole.range} density=${all.density} marks=${allMarks} window=${range}
        handles=${wholeHandles} onRange=${setRange} onMoment=${moment} onZoom=${zoom} />
      <div class="strip-between"><span class="range-text"><b>${timeSpan(range.from, range.to)}</b> <span class="soft">${duration((range.to - range.from) / 1e6)}</span></span>
        <span class="spring"></span><span role="status" aria-live=${patient ? "off" : "polite"}><${Total} density=${part.density} busy=${part.busy} /></span>
        ${!live && html`<button type="button" class="button quiet icon" aria-label="Zoom out around A" onClick=${() => zoom(zoomed(range, shown.at, 2, bounds))}>−</button>
        <button type="button" class="button quiet icon" aria-label="Zoom in around A" onClick=${() => zoom(zoomed(range, shown.at, 0.5, bounds))}>+</button>`}
        <button type="button" class="button quiet" aria-expanded=${asTable} disabled=${!part.density} onClick=${() => setAsTable(!asTable)}>${asTable ? "Hide the table" : "As a table"}</button></div>
      <${Strip} name="range" label="The chosen range" view=${range} bounds=${bounds} density=${part.density} marks=${partMarks} hits=${hits}
        handles=${rangeHandles} onRange=${setRange} onMoment=${moment} onZoom=${zoom} />
      ${searching && html`<p class="soft small strip-note">The bars count the topic filter alone. Marks on the line below them are messages that were found.</p>`}
      <${Legend} marks=${[...allMarks, ...partMarks]} estimated=${Boolean((part.density && !part.density.exact) || (all.density && !all.density.exact))} lost=${whole.lost > 0} />
      ${asTable && part.density && html`<${BucketTable} density=${part.density} caption="Messages of the range" />`}
    </section>
    <${Transport} at=${shown.at} b=${shown.b} now_us=${whole.now_us} live=${live} playing=${playing} speed=${speed} errors=${errors}
      onA=${setA} onB=${(/** @type {number | null} */ b) => change({ b })} onCompare=${() => change({ b: firstB(range, shown.at) })} onStep=${step} onPlay=${play} onSpeed=${setSpeed} />
    <div class=${classes("time-panes", shown.b !== null && "comparing")}>
      <${MessagesPanel} messages=${messages} live=${live ? following : null} view=${{ ...view, ...asked }} at=${shown.at} searching=${searching} chosen=${chosen} onChosen=${setChosen} quiet=${patient} />
      <${StatePanel} state=${state} comparison=${comparison} at=${shown.at} b=${shown.b} lookBack_s=${view.lookBack_s} retained=${view.retained} plotted=${topics}
        onLookBack=${(/** @type {number} */ lookBack_s) => change({ lookBack_s }, false)} onRetained=${(/** @type {boolean} */ retained) => change({ retained }, false)}
        onPlot=${togglePlot} onMessage=${setChosen} quiet=${patient} />
    </div>
    <${PlotPanel} topics=${topics} path=${view.path} paths=${paths} suggested=${numeric} range=${asked} at=${shown.at} plot=${plot} onTopic=${togglePlot} onPath=${(/** @type {string} */ path) => change({ path }, false)} onMoment=${setA} />
    <${PlayPanel} view=${view} density=${part.density} live=${live} />
  </div>`;
}

/**
 * Keeps the address whole: ages become moments, the time zone is part of it.
 * @param {View} given
 * @param {Settled} view
 * @param {(patch: Partial<View>, push?: boolean) => void} change
 */
function useAddress(given, view, change) {
  const opened = useRef(false);
  const zone = timeZone.value;
  useEffect(() => {
    if (!opened.current && given.tz) timeZone.value = given.tz;
    const tz = opened.current || !given.tz ? zone : given.tz;
    opened.current = true;
    const { pathname, search } = location;
    const wanted = new URL(addressOf({ ...view, tz: tz === "local" ? "local" : "utc" }), location.href);
    // A time that cannot be read stays in the address, beside its error.
    if (pathname === "/time" && !Object.keys(given.wrong).length && search !== wanted.search) change({ tz: tz === "local" ? "local" : "utc" }, false);
  }, [view, zone]);
}

/** Counts on while the tab is visible. @param {number} every_ms */
function useTurn(every_ms) {
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => { if (!document.hidden) setTurn((n) => n + 1); }, every_ms);
    return () => clearInterval(timer);
  }, []);
  return turn;
}

/** As many bars of so many pixels as this window can show. @param {number} wide */
function bucketsFor(wide) {
  return clamp(Math.floor((globalThis.innerWidth || 1200) / wide), 60, 400);
}

/** @param {any} answer @returns {any[]} */
function eventsOf(answer) {
  return answer?.events ?? answer?.items ?? [];
}

/**
 * Errors by the name of their field.
 * @param {Record<string, string>} wrong
 * @param {(import("../parts/api.js").ApiError | null)[]} answers
 */
function errorsOf(wrong, answers) {
  /** @type {Record<string, string>} */
  const errors = { ...wrong };
  for (const error of answers) if (error?.parameter && !errors[error.parameter]) errors[error.parameter] = error.detail;
  return errors;
}
