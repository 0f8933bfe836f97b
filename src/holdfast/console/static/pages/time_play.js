/**
 * Play: the messages of the range, published again as a job of the console, and the jobs that were started here.
 *
 * Into topics below a prefix; into the topics themselves only after the filter was typed once more.
 */
import { asCurl, post, quote, segment } from "../parts/api.js";
import { holdfast } from "../parts/command.js";
import { CopyAs } from "../parts/copy_as.js";
import { ask } from "../parts/dialog.js";
import { number, time, visible } from "../parts/format.js";
import { html, signal, useState } from "../parts/html.js";
import { jobs, may, node, refreshJobs } from "../parts/live.js";
import { Ago, Field, Name, Problem, State } from "../parts/text.js";
import { T } from "../texts.js";
import { mostText } from "./time_bar.js";
import { brokerOptions } from "./time_commands.js";
import { isoShort } from "./time_view.js";

/** @typedef {import("./time_view.js").View} View */
/** @typedef {import("../parts/strip_draw.js").Density} Density */
/** @typedef {import("../parts/live.js").Job} Job */

/** Jobs that are shown before "all". */
const SHOWN = 5;
const KINDS = /** @type {const} */ ({ running: "good", done: "off", stopped: "warn", failed: "bad" });

/**
 * @param {object} props
 * @param {View} props.view
 * @param {Density | null} props.density of the range
 * @param {boolean} props.live
 */
export function PlayPanel({ view, density, live }) {
  const [error, setError] = useState(/** @type {any} */ (null));
  const items = jobs.value;
  // The event stream moves the jobs; only what was done here is asked for at once.
  const again = () => refreshJobs().then(() => setError(null), setError);
  const mayPlay = may("operator") && !live;
  if (!mayPlay && items.length === 0) return null;
  return html`<section class="panel play" aria-labelledby="play-title">
    <div class="panel-head"><h2 id="play-title">${T.play.title}</h2><p class="soft">${T.play.intro}</p></div>
    <div class="panel-body">
      ${mayPlay && html`<${PlayForm} view=${view} density=${density} onStarted=${again} />`}
      <${Problem} error=${error} again=${again} />
      <${JobList} items=${items} onChanged=${again} />
    </div>
  </section>`;
}

/** @param {{view: View, density: Density | null, onStarted: () => void}} props */
function PlayForm({ view, density, onStarted }) {
  const [prefix, setPrefix] = useState("replayed/");
  const [same, setSame] = useState(false);
  const [speed, setSpeed] = useState("1");
  const [user, setUser] = useState("");
  const [password, setPassword] = useState("");
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const body = {
      kind: "replay", filter: view.filter, from: String(view.from), until: String(view.to), speed, prefix: same ? "" : prefix,
      ...(same ? { confirm: view.filter } : {}), ...(user ? { user } : {}),
    };
    const narrowed = [view.zone && T.play.zone, view.client && T.play.client, view.payload && T.play.payload].filter(Boolean);
    const started = await ask({
      title: same ? T.play.sameTitle(mostText(density)) : T.play.askTitle(mostText(density), visible(prefix, 60)),
      subject: html`<p><${Name} value=${view.filter} wrap /></p><p class="soft small">${isoShort(view.from ?? 0)} – ${isoShort(view.to ?? 0)}</p>`,
      effects: [...(same ? T.play.sameEffects : T.play.effects(visible(prefix, 60))), T.play.pace(speed), ...narrowed.map((what) => T.play.notNarrowed(String(what)))],
      action: T.play.action,
      danger: same,
      confirm: same ? view.filter : undefined,
      curl: asCurl("jobs", {}, { method: "POST", body }),
      command: playCommand(view, speed, same ? null : prefix, user),
      run: () => post("jobs", user && password ? { ...body, password } : body),
    });
    if (started) {
      setPassword("");
      onStarted();
    }
  };
  return html`<form class="fields play-fields" onSubmit=${submit}>
    <${Field} id="play-prefix" label=${T.play.prefix} value=${same ? "" : prefix} placeholder=${same ? T.play.sameShort : ""} mono onInput=${(/** @type {string} */ value) => { setPrefix(value); setSame(false); }} />
    <${SpeedField} id="play-speed" value=${speed} onInput=${setSpeed} />
    <${Field} id="play-user" label=${T.play.user} class="narrow" value=${user} placeholder=${T.play.nobody} onInput=${setUser} />
    <${Field} id="play-password" label=${T.play.password} class="narrow" type="password" autocomplete="new-password" value=${password} onInput=${setPassword} />
    <label class="check"><input type="checkbox" checked=${same} onChange=${(/** @type {any} */ event) => setSame(event.target.checked)} /> ${T.play.same}</label>
    <button type="submit" class="button" disabled=${!same && !prefix}>${same ? T.play.playSame : T.play.play(visible(prefix, 30))}</button>
  </form>`;
}

/** @param {{id: string, value: string, onInput: (value: string) => void}} props */
function SpeedField({ id, value, onInput }) {
  return html`<div class="field narrow"><label for=${id}>${T.play.speed}</label>
    <input id=${id} list="play-speeds" value=${value} autocomplete="off" onInput=${(/** @type {any} */ event) => onInput(event.target.value.trim())} />
    <datalist id="play-speeds"><option value="1"></option><option value="10"></option><option value="100"></option><option value="max"></option></datalist></div>`;
}

/**
 * The command that the job is.
 * @param {View} view
 * @param {string} speed
 * @param {string | null} prefix null: the topics themselves
 * @param {string} user
 */
export function playCommand(view, speed, prefix, user) {
  const into = prefix === null ? "--to-same-topics" : `--to-prefix ${quote(prefix)}`;
  const who = user ? ` --user ${quote(user)} --password-env PASSWORD` : "";
  return `holdfast replay ${quote(view.filter)} --from ${isoShort(view.from ?? 0)} --until ${isoShort(view.to ?? 0)} --speed ${quote(speed)} ${into} --progress --json${who}${brokerOptions(node.value)}`;
}

/**
 * The command that goes on behind the place of a job, and ends where the job would; null if it cannot be told.
 *
 * No command of `holdfast` resumes the job itself: this is the replay that resuming it would run.
 * @param {Job} job
 * @param {string} speed
 */
export function resumeCommand(job, speed) {
  // Behind the hyphens stands the filter alone, quoted as the console does it. Of options that stand twice, the last counts.
  const { filter } = job.replay;
  const end = ` -- ${/^[\w@%+=:,./-]+$/.test(filter) ? filter : `'${filter.replaceAll("'", "'\"'\"'")}'`}`;
  if (!job.command.endsWith(end)) return null;
  const after = job.place ? ` --after=${quote(job.place)}` : "";
  return `${job.command.slice(0, -end.length)} --speed=${quote(speed)}${after}${end}`;
}

/** How a job is stopped. @param {Job} job */
function stopEntries(job) {
  if (job.state !== "running" || !may("operator")) return [];
  return [{ label: T.play.stopCurl, text: asCurl(`jobs/${segment(job.id)}/stop`, {}, { method: "POST" }) }, { label: T.play.stopCommand, text: holdfast(`jobs stop ${quote(job.id)}`) }];
}

/** @param {{items: Job[], onChanged: () => void}} props */
function JobList({ items, onChanged }) {
  const [all, setAll] = useState(false);
  if (items.length === 0) return null;
  const shown = all ? items : items.slice(0, SHOWN);
  return html`<ul class="jobs" aria-label=${T.play.jobs}>${shown.map((job) => html`<${JobRow} key=${job.id} job=${job} onChanged=${onChanged} />`)}</ul>
    ${items.length > shown.length && html`<button type="button" class="button quiet" onClick=${() => setAll(true)}>${T.play.all(items.length)}</button>`}`;
}

/** @param {{job: Job, onChanged: () => void}} props */
function JobRow({ job, onChanged }) {
  const [error, setError] = useState(/** @type {any} */ (null));
  const [busy, setBusy] = useState(false);
  const { replay } = job;
  const stop = async () => {
    setBusy(true);
    setError(null);
    try {
      await post(`jobs/${segment(job.id)}/stop`);
    } catch (problem) {
      setError(problem);
    }
    setBusy(false);
    onChanged();
  };
  const resume = async () => {
    const speed = signal(replay.speed);
    let password = "";
    const path = `jobs/${segment(job.id)}/resume`;
    const resumed = await ask({
      title: T.play.resumeTitle(number(job.messages)),
      subject: html`<p><${Name} value=${replay.filter} wrap /></p>
        <${ResumeFields} speed=${speed} user=${replay.user} onPassword=${(/** @type {string} */ value) => { password = value; }} />`,
      effects: T.play.resumeEffects,
      action: T.play.resume,
      curl: () => asCurl(path, {}, { method: "POST", body: { speed: speed.value } }),
      command: () => resumeCommand(job, speed.value) ?? "",
      run: () => post(path, password ? { speed: speed.value, password } : { speed: speed.value }),
    });
    if (resumed) onChanged();
  };
  const canGoOn = job.state === "stopped" || job.state === "failed";
  return html`<li class="job" data-state=${job.state}>
    <div class="job-line"><${State} kind=${KINDS[job.state]}>${T.play.states[job.state]}</${State}>
      <span class="job-what"><${Name} value=${replay.filter} limit=${80} /> → ${replay.prefix ? html`<${Name} value=${`${replay.prefix}…`} limit=${80} />` : T.play.sameShort}</span>
      <span class="spring"></span>
      <span class="job-count">${T.play.messages(job.messages, number(job.messages))}</span>
      ${may("operator") && job.state === "running" && html`<button type="button" class="button" disabled=${busy} onClick=${stop}>${T.play.stop}</button>`}
      ${may("operator") && canGoOn && html`<button type="button" class="button" onClick=${resume}>${T.play.resume}</button>`}
      <${CopyAs} curl=${asCurl("jobs")} command=${job.command} more=${stopEntries(job)} /></div>
    <div class="job-line soft small"><progress aria-label=${T.play.progress} max="1" value=${job.state === "running" && job.share === null ? undefined : job.share ?? 0}></progress>
      <span>${T.play.speedText(replay.speed)}${job.at_us ? `, ${T.play.at(time(job.at_us, "s"))}` : ""}</span><span class="spring"></span>
      <span>${T.play.by(job.by)} <${Ago} at_us=${job.began_us} /> ${T.play.ago}</span></div>
    ${job.detail && html`<p class=${job.state === "failed" ? "error small" : "soft small"}>${job.detail}</p>`}
    <${Problem} error=${error} />
  </li>`;
}

/** @param {{speed: import("../vendor/signals.js").Signal<string>, user: string, onPassword: (value: string) => void}} props */
function ResumeFields({ speed, user, onPassword }) {
  const [password, setPassword] = useState("");
  return html`<div class="fields"><${SpeedField} id="resume-speed" value=${speed.value} onInput=${(/** @type {string} */ value) => { speed.value = value; }} />
    ${user && html`<${Field} id="resume-password" label=${T.play.passwordOf(user)} type="password" autocomplete="new-password" value=${password}
      onInput=${(/** @type {string} */ value) => { setPassword(value); onPassword(value); }} />`}</div>`;
}
