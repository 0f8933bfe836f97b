/**
 * Questions about blocks: how long and why, and whether one is removed. They show the call and the command as they are filled in.
 */
import { asCurl, del, put, quote, segment } from "../parts/api.js";
import { holdfast } from "../parts/command.js";
import { ask } from "../parts/dialog.js";
import { visible } from "../parts/format.js";
import { html, signal } from "../parts/html.js";
import { Field, Name } from "../parts/text.js";
import { T } from "../texts.js";

/** @typedef {{seconds: number, reason: string}} Terms */
/** @typedef {import("../vendor/signals.js").Signal<Terms>} TermsSignal */
/** @typedef {{kind: "client" | "user" | "address", value: string, until_us: number, reason: string, by: string, since_us: number}} Block */

const DAY_S = 86_400;
const KINDS = /** @type {const} */ (["client", "user", "address"]);

/** What a question begins with. @returns {TermsSignal} */
export const blockTerms = () => signal({ seconds: DAY_S, reason: "" });

/** @param {{terms: TermsSignal}} props */
export function BlockFields({ terms }) {
  const set = (/** @type {Partial<Terms>} */ patch) => { terms.value = { ...terms.peek(), ...patch }; };
  return html`<div class="fields block-fields"><div class="field narrow"><label for="block-for">${T.blocks.duration}</label>
      <select id="block-for" value=${String(terms.value.seconds)} onChange=${(/** @type {any} */ event) => set({ seconds: Number(event.target.value) })}>
        ${Object.entries(T.blocks.durations).sort(([a], [b]) => (Number(a) || Infinity) - (Number(b) || Infinity)).map(([seconds, label]) => html`<option key=${seconds} value=${seconds}>${label}</option>`)}</select></div>
    <${Field} id="block-reason" class="wide" label=${T.blocks.reasonField} value=${terms.value.reason} onInput=${(/** @type {string} */ reason) => set({ reason })} /></div>`;
}

/**
 * The command that blocks; a line for each mount point.
 * @param {string} kind
 * @param {string[]} values
 * @param {Terms} terms
 */
export function blockCommand(kind, values, terms) {
  const expires = terms.seconds ? `--expires=${terms.seconds}s` : "";
  const reason = terms.reason ? `--reason=${quote(terms.reason)}` : "";
  return targets(kind, values).map((words) => holdfast("blocks add", [words, expires, reason])).join("\n");
}

/** @param {string} kind @param {string[]} values */
function targets(kind, values) {
  /** @type {Map<string, string[]>} by mount point */
  const groups = new Map();
  for (const value of values) {
    const at = kind === "client" ? value.indexOf("\0") : -1;
    const mount = at < 0 ? "" : value.slice(0, at);
    groups.set(mount, [...(groups.get(mount) ?? []), `--${kind}=${quote(value.slice(at + 1))}`]);
  }
  return [...groups].map(([mount, words]) => words.join(" ") + (mount ? ` --mount-point=${quote(mount)}` : ""));
}

/** @param {string} kind @param {string} value */
const pathOf = (kind, value) => `blocks/${kind}/${segment(value)}`;

/** The call, or nothing while the value cannot stand in an address. @param {string} kind @param {string} value @param {"PUT" | "DELETE"} method @param {unknown} body */
function curlOf(kind, value, method, body) {
  try {
    return asCurl(pathOf(kind, value), {}, { method, body });
  } catch {
    return "";
  }
}

/**
 * Asks, and blocks a client.
 * @param {string} id
 * @param {any} subject
 */
export function askBlock(id, subject) {
  const terms = blockTerms();
  return ask({
    title: T.blocks.oneTitle, subject: html`${subject}<${BlockFields} terms=${terms} />`, effects: T.blocks.oneEffects, action: T.blocks.action,
    curl: () => curlOf("client", id, "PUT", terms.value), command: () => blockCommand("client", [id], terms.value),
    run: () => put(pathOf("client", id), terms.value),
  });
}

/** Asks whom, and blocks. */
export function askAnyBlock() {
  const terms = blockTerms();
  const who = signal({ kind: "client", value: "" });
  return ask({
    title: T.blocks.addTitle, subject: html`<${WhoFields} who=${who} /><${BlockFields} terms=${terms} />`, effects: T.blocks.addEffects, action: T.blocks.action,
    curl: () => curlOf(who.value.kind, who.value.value, "PUT", terms.value), command: () => (who.value.value ? blockCommand(who.value.kind, [who.value.value], terms.value) : ""),
    run: () => put(pathOf(who.value.kind, who.value.value), terms.value),
  });
}

/** @param {{who: import("../vendor/signals.js").Signal<{kind: string, value: string}>}} props */
function WhoFields({ who }) {
  return html`<div class="fields block-fields"><div class="field narrow"><label for="block-kind">${T.blocks.kind}</label>
      <select id="block-kind" value=${who.value.kind} onChange=${(/** @type {any} */ event) => { who.value = { ...who.peek(), kind: event.target.value }; }}>
        ${KINDS.map((kind) => html`<option key=${kind} value=${kind}>${T.blocks.kinds[kind]}</option>`)}</select></div>
    <${Field} id="block-value" class="wide" label=${T.blocks.value} value=${who.value.value} mono onInput=${(/** @type {string} */ value) => { who.value = { ...who.peek(), value }; }} /></div>`;
}

/**
 * Asks, and removes a block.
 * @param {Block} block
 */
export function askUnblock(block) {
  const { kind, value } = block;
  return ask({
    title: T.blocks.unblockTitle, subject: html`<span class="tag">${T.blocks.kinds[kind]}</span> <${Name} value=${value} wrap />`,
    effects: T.blocks.unblockEffects(kind, visible(value, 80)), action: T.blocks.unblock,
    curl: curlOf(kind, value, "DELETE", {}), command: targets(kind, [value]).map((words) => holdfast("blocks remove", [words])).join("\n"),
    run: () => del(pathOf(kind, value)),
  });
}
