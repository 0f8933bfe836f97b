/**
 * A question before a change: it names what will happen, to what, and to how many.
 *
 *     const answer = await ask({ title: "Disconnect 1 client?", subject: html`…`, effects: ["…"], action: "Disconnect" });
 *
 * The change runs while the dialog is open, so that what was refused is said where it was asked.
 */
import { html, signal, useEffect, useRef, useState } from "./html.js";
import { Problem } from "./text.js";
import { CopyAs } from "./copy_as.js";
import { T } from "../texts.js";

/**
 * @typedef {object} Question
 * @property {string} title names the act and how many it meets
 * @property {any} [subject] what it meets
 * @property {string[]} effects what will happen, a sentence each
 * @property {string} action the word on the button
 * @property {boolean} [danger] the change cannot be undone
 * @property {string} [confirm] a text that has to be typed first
 * @property {string | (() => string)} [curl] a function is asked again when a signal that it reads changes
 * @property {string | (() => string)} [command]
 * @property {() => Promise<any>} run does it
 */

const asked = signal(/** @type {{question: Question, settle: (result: any) => void} | null} */ (null));

/**
 * Asks, and does it.
 * @param {Question} question
 * @returns {Promise<any>} what `run` gave; undefined if it was called off
 */
export function ask(question) {
  return new Promise((settle) => {
    asked.value = { question, settle };
  });
}

/** @param {string | (() => string) | undefined} given */
const textOf = (given) => (typeof given === "function" ? given() : given);

/** Where questions appear; once in the page. */
export function Dialogs() {
  const open = asked.value;
  return open && html`<${Ask} key=${open.question.title} question=${open.question} settle=${(/** @type {any} */ result) => {
    asked.value = null;
    open.settle(result);
  }} />`;
}

/** @param {{question: Question, settle: (result: any) => void}} props */
function Ask({ question, settle }) {
  const box = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const before = useRef(document.activeElement);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(/** @type {any} */ (null));
  const [typed, setTyped] = useState("");
  useEffect(() => {
    box.current?.showModal();
    return () => /** @type {HTMLElement | null} */ (before.current)?.focus?.();
  }, []);
  const close = (/** @type {any} */ result) => {
    box.current?.close();
    settle(result);
  };
  const run = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      close(await question.run());
    } catch (problem) {
      setError(problem);
      setBusy(false);
    }
  };
  const curl = textOf(question.curl);
  const command = textOf(question.command);
  return html`<dialog ref=${box} aria-labelledby="dialog-title" aria-describedby="dialog-effects" onCancel=${() => close(undefined)}>
    <form class="dialog-body" onSubmit=${run}>
      <h2 id="dialog-title">${question.title}</h2>
      ${question.subject && html`<div class="dialog-subject">${question.subject}</div>`}
      <ul class="dialog-effects" id="dialog-effects">${question.effects.map((effect) => html`<li key=${effect}>${effect}</li>`)}</ul>
      ${question.confirm !== undefined && html`<div class="field"><label for="dialog-confirm">${T.dialog.typeAgain}</label>
        <input id="dialog-confirm" autocomplete="off" value=${typed} onInput=${(/** @type {any} */ event) => setTyped(event.target.value)} /></div>`}
      <${Problem} error=${error} />
      <div class="dialog-buttons">
        ${(curl || command) && html`<${CopyAs} curl=${curl} command=${command} /><span class="spring"></span>`}
        <button type="button" class="button" onClick=${() => close(undefined)} autofocus>${T.dialog.cancel}</button>
        <button type="submit" class=${`button ${question.danger ? "danger sure" : "primary"}`}
          disabled=${busy || (question.confirm !== undefined && typed !== question.confirm)}>${busy ? T.dialog.busy : question.action}</button>
      </div>
    </form>
  </dialog>`;
}
