/**
 * Below the strips: step from message to message, preview, and the moments A and B as fields.
 *
 * The preview moves A through the range in the page alone: nothing is published.
 */
import { html, useEffect, useRef, useState } from "../parts/html.js";
import { time, timeZone, zoneName } from "../parts/format.js";
import { parseTime } from "./time_view.js";

export const SPEEDS = [1, 10, 100, 1000];
const FRAME_MS = 250;

/**
 * Moves a moment on until the end of the range.
 * @param {object} props
 * @param {boolean} props.playing
 * @param {number} props.speed
 * @param {number} props.at
 * @param {number} props.end
 * @param {(at_us: number) => void} props.onMove
 * @param {() => void} props.onEnd
 */
export function usePreview({ playing, speed, at, end, onMove, onEnd }) {
  const now = useRef({ at, end, onMove, onEnd });
  now.current = { at, end, onMove, onEnd };
  useEffect(() => {
    if (!playing) return undefined;
    let before = performance.now();
    const timer = setInterval(() => {
      const moment = performance.now();
      const next = Math.round(now.current.at + (moment - before) * 1000 * speed);
      before = moment;
      now.current.onMove(Math.min(next, now.current.end));
      if (next >= now.current.end) now.current.onEnd();
    }, FRAME_MS);
    return () => clearInterval(timer);
  }, [playing, speed]);
}

/**
 * @param {object} props
 * @param {number} props.at
 * @param {number | null} props.b
 * @param {number} props.now_us
 * @param {boolean} props.live
 * @param {boolean} props.playing
 * @param {number} props.speed
 * @param {Record<string, string>} props.errors
 * @param {(at_us: number) => void} props.onA
 * @param {(at_us: number | null) => void} props.onB
 * @param {() => void} props.onCompare chooses a B
 * @param {(way: "older" | "newer") => void} props.onStep
 * @param {(playing: boolean) => void} props.onPlay
 * @param {(speed: number) => void} props.onSpeed
 */
export function Transport({ at, b, now_us, live, playing, speed, errors, onA, onB, onCompare, onStep, onPlay, onSpeed }) {
  if (live) return null;
  return html`<div class="transport">
    <div class="transport-keys" role="group" aria-label="Step and preview">
      <button type="button" class="button" aria-label="The message before A" onClick=${() => onStep("older")}>${ICONS.before}</button>
      <button type="button" class="button" aria-pressed=${playing} onClick=${() => onPlay(!playing)}>${playing ? ICONS.pause : ICONS.play} ${playing ? "Pause" : "Preview"}</button>
      <button type="button" class="button" aria-label="The message after A" onClick=${() => onStep("newer")}>${ICONS.after}</button>
      <div class="tabs" role="group" aria-label="Speed of the preview">${SPEEDS.map((one) => html`<button type="button" key=${one} class="tab" aria-pressed=${one === speed}
        onClick=${() => onSpeed(one)}>${one}×</button>`)}</div>
    </div>
    <span class="spring"></span>
    <${TimeField} id="time-a" sign="A" label="moment A" value=${at} now_us=${now_us} error=${errors.at ?? errors.a} onChange=${onA} />
    ${b === null
      ? html`<button type="button" class="button" onClick=${onCompare}><span class="sign sign-b" aria-hidden="true">B</span> Compare with B</button>`
      : html`<${TimeField} id="time-b" sign="B" label="moment B" value=${b} now_us=${now_us} error=${errors.b} onChange=${onB} />
        <button type="button" class="button quiet" onClick=${() => onB(null)}>Without B</button>`}
  </div>`;
}

/**
 * A moment as text: ISO 8601, a time of the day, an age, or Unix µs.
 * @param {object} props
 * @param {string} props.id
 * @param {string} props.sign
 * @param {string} props.label
 * @param {number} props.value
 * @param {number} props.now_us
 * @param {string | undefined} props.error
 * @param {(at_us: number) => void} props.onChange
 */
function TimeField({ id, sign, label, value, now_us, error, onChange }) {
  const zone = timeZone.value;
  const shown = time(value, value % 1000 ? "us" : "ms");
  const [typed, setTyped] = useState(/** @type {string | null} */ (null));
  const [wrong, setWrong] = useState("");
  useEffect(() => {
    setTyped(null);
    setWrong("");
  }, [value, zone]);
  const commit = (/** @type {string} */ text) => {
    if (text === shown) return;
    try {
      onChange(parseTime(text, now_us, { local: zone === "local" }));
      setTyped(null);
      setWrong("");
    } catch (problem) {
      setWrong(/** @type {Error} */ (problem).message);
    }
  };
  const problem = wrong || error;
  return html`<div class="field time-field">
    <label for=${id}><span class=${`sign sign-${sign.toLowerCase()}`} aria-hidden="true">${sign}</span> ${label}, ${zone === "utc" ? "UTC" : zoneName()}</label>
    <input id=${id} class="mono" value=${typed ?? shown} autocomplete="off" spellcheck=${false} aria-invalid=${problem ? "true" : undefined} aria-describedby=${problem ? `${id}-error` : undefined}
      onInput=${(/** @type {any} */ event) => setTyped(event.target.value)} onChange=${(/** @type {any} */ event) => commit(event.target.value)}
      onKeyDown=${(/** @type {any} */ event) => { if (event.key === "Enter") commit(event.target.value); if (event.key === "Escape") setTyped(null); }} />
    ${problem && html`<p class="error" id=${`${id}-error`}>${problem}</p>`}
  </div>`;
}

const icon = (/** @type {string} */ path) => html`<svg viewBox="0 0 16 16" aria-hidden="true"><path d=${path} fill="currentColor" /></svg>`;
const ICONS = {
  before: icon("M3 3h2v10H3zM13 3v10L6 8z"),
  after: icon("M11 3h2v10h-2zM3 3v10l7-5z"),
  play: icon("M4 2.5v11L13 8z"),
  pause: icon("M4 3h3v10H4zM9 3h3v10H9z"),
};
