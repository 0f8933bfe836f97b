/**
 * A viewer for payloads of any bytes: text, JSON, hex, CBOR, Sparkplug B.
 *
 * 1. Bytes are text or numbers on the screen, never markup: everything goes through text nodes.
 * 2. What is cut says so, with the size of the whole and a button that loads it.
 * 3. A form that does not fit the bytes says why; it never throws. Trees draw at most 200 entries of a level at first.
 */
import { html, useMemo, useState } from "./html.js";
import { bytes as formatBytes, NONE, number, pieces, toBytes } from "./format.js";
import { Choice } from "./text.js";
import { hexLines, textOf } from "./payload_bytes.js";
import { decodeCbor, Pairs, Typed } from "./payload_cbor.js";
import { decodeSparkplug } from "./payload_sparkplug.js";

/** @typedef {import("./payload_bytes.js").Wire} Wire */
/** @typedef {"text" | "json" | "hex" | "cbor" | "sparkplug"} Form */

const TEXT_LIMIT = 20_000;
const HEX_LINES = 512;
const ENTRIES = 200;
/** Deeper JSON than this is shown as text: the tree would need more calls than a browser has. */
const JSON_DEPTH = 200;

const FORMS = /** @type {{value: Form, label: string}[]} */ ([
  { value: "text", label: "Text" }, { value: "json", label: "JSON" }, { value: "hex", label: "Hex" },
  { value: "cbor", label: "CBOR" }, { value: "sparkplug", label: "Sparkplug" },
]);

/**
 * The form that fits best.
 * @param {Uint8Array} bytes
 * @param {string} topic
 * @param {string} contentType
 * @param {boolean} cut
 * @returns {Form}
 */
export function bestForm(bytes, topic, contentType, cut) {
  if (/cbor/i.test(contentType)) return "cbor";
  if (/^spBv1\.0\//.test(topic) && fits(() => decodeSparkplug(bytes))) return "sparkplug";
  const text = textOf(bytes, cut);
  if (text !== null && /^\s*[[{]/.test(text) && fits(() => JSON.parse(text))) return "json";
  // eslint-disable-next-line no-control-regex
  if (text !== null && !/[\u0000-\u0008\u000e-\u001f]/.test(text)) return "text";
  if (!cut && bytes.length > 1 && bytes[0] >= 0x80 && bytes[0] <= 0xbf && fits(() => decodeCbor(bytes))) return "cbor";
  return "hex";
}

/** @param {() => unknown} decode */
function fits(decode) {
  try {
    decode();
    return true;
  } catch {
    return false;
  }
}

/**
 * @param {object} props
 * @param {Wire | null | undefined} props.payload
 * @param {number} [props.size] bytes of the whole
 * @param {string} [props.topic]
 * @param {string} [props.contentType]
 * @param {() => void} [props.onLoadAll] loads what was cut off
 */
export function Payload({ payload, size, topic = "", contentType = "", onLoadAll }) {
  const bytes = useMemo(() => toBytes(payload), [payload]);
  const cut = Boolean(payload?.cut);
  const best = useMemo(() => bestForm(bytes, topic, contentType, cut), [bytes, topic, contentType, cut]);
  const [chosen, setChosen] = useState(/** @type {Form | null} */ (null));
  const form = chosen ?? best;
  const whole = size ?? payload?.bytes ?? bytes.length;
  return html`<div class="payload">
    <div class="payload-head">
      <${Choice} label="Show the payload as" value=${form} options=${FORMS} onChange=${setChosen} />
      <span class="soft small">${formatBytes(whole)}${contentType ? ` · ${contentType}` : ""}</span>
      ${cut && html`<span class="tag warn">the first ${formatBytes(bytes.length)} of ${formatBytes(whole)}</span>
        ${onLoadAll && html`<button type="button" class="button quiet" onClick=${onLoadAll}>Load all</button>`}`}
    </div>
    ${bytes.length === 0 ? html`<p class="payload-empty soft">no bytes</p>` : html`<${Body} form=${form} bytes=${bytes} cut=${cut} />`}
  </div>`;
}

/** @param {{form: Form, bytes: Uint8Array, cut: boolean}} props */
function Body({ form, bytes, cut }) {
  if (form === "hex") return html`<${Hex} bytes=${bytes} />`;
  if (form === "text") return html`<${Text} bytes=${bytes} cut=${cut} />`;
  return html`<${Decoded} key=${form} form=${form} bytes=${bytes} cut=${cut} />`;
}

/** @param {{bytes: Uint8Array, cut: boolean}} props */
function Text({ bytes, cut }) {
  const [limit, setLimit] = useState(TEXT_LIMIT);
  const text = useMemo(() => textOf(bytes, cut), [bytes, cut]);
  if (text === null) return html`<p class="payload-wrong">These bytes are no UTF-8 text. Hex shows them.</p>`;
  const shown = pieces(text, limit, { lines: true });
  return html`<pre class="payload-text" tabindex="0" aria-label="Payload as text">${shown.pieces.map((piece) => (piece.escape
    ? html`<span class="esc">${piece.text}</span>` : piece.text))}</pre>
    ${shown.cut > 0 && html`<p class="payload-more">… ${number(shown.cut)} characters more
      <button type="button" class="button quiet" onClick=${() => setLimit(limit * 10)}>Show more</button></p>`}`;
}

/** @param {{bytes: Uint8Array}} props */
function Hex({ bytes }) {
  const [most, setMost] = useState(HEX_LINES);
  const lines = hexLines(bytes, most);
  return html`<pre class="payload-text payload-hex" tabindex="0" aria-label="Payload as hex">${lines.join("\n")}</pre>
    ${lines.length * 16 < bytes.length && html`<p class="payload-more">… ${formatBytes(bytes.length - lines.length * 16)} more
      <button type="button" class="button quiet" onClick=${() => setMost(most * 4)}>Show more</button></p>`}`;
}

/** @param {{form: Form, bytes: Uint8Array, cut: boolean}} props */
function Decoded({ form, bytes, cut }) {
  const result = useMemo(() => {
    try {
      if (form === "sparkplug") return { metrics: decodeSparkplug(bytes) };
      return { value: form === "cbor" ? decodeCbor(bytes) : parseJson(bytes, cut) };
    } catch (error) {
      return { wrong: /** @type {Error} */ (error).message };
    }
  }, [form, bytes, cut]);
  if (result.wrong !== undefined) {
    const name = FORMS.find((one) => one.value === form)?.label;
    return html`<p class="payload-wrong">This is no ${name}${cut ? ", or its end is missing" : ""}: ${result.wrong}</p>`;
  }
  if (result.metrics) return html`<${Metrics} found=${result.metrics} />`;
  return html`<div class="payload-tree" tabindex="0" role="group" aria-label=${`Payload as ${form === "cbor" ? "CBOR" : "JSON"}`}>
    <${Branch} name=${null} value=${result.value} depth=${0} /></div>`;
}

/** @param {Uint8Array} bytes @param {boolean} cut */
function parseJson(bytes, cut) {
  const text = textOf(bytes, cut);
  if (text === null) throw new Error("the bytes are no UTF-8 text");
  let depth = 0;
  let deepest = 0;
  for (const sign of text) {
    if (sign === "[" || sign === "{") deepest = Math.max(deepest, ++depth);
    else if (sign === "]" || sign === "}") depth -= 1;
  }
  if (deepest > JSON_DEPTH) throw new Error(`nested deeper than ${JSON_DEPTH}`);
  return JSON.parse(text);
}

/** @param {{name: string | null, value: unknown, depth: number}} props */
function Branch({ name, value, depth }) {
  const entries = entriesOf(value);
  const [open, setOpen] = useState(depth < 2 && (entries?.length ?? 0) <= 50);
  const [most, setMost] = useState(ENTRIES);
  const label = name === null ? "" : html`<span class="tree-name">${one(name)}</span><span class="soft">: </span>`;
  if (!entries) return html`<div class="tree-row">${label}<${Leaf} value=${value} /></div>`;
  const list = Array.isArray(value);
  const size = `${number(entries.length)} ${list ? (entries.length === 1 ? "item" : "items") : entries.length === 1 ? "field" : "fields"}`;
  return html`<div class="tree-branch">
    <div class="tree-row"><button type="button" class="tree-fold" aria-expanded=${open} onClick=${() => setOpen(!open)}>
      <span class="tree-caret" aria-hidden="true"></span>${label}<span class="soft">${list ? "[…]" : "{…}"} ${size}</span></button></div>
    ${open && html`<div class="tree-children">
      ${entries.slice(0, most).map(([key, item], i) => html`<${Branch} key=${i} name=${key} value=${item} depth=${depth + 1} />`)}
      ${entries.length > most && html`<button type="button" class="button quiet" onClick=${() => setMost(most * 4)}>${number(entries.length - most)} more</button>`}
    </div>`}
  </div>`;
}

/** @param {unknown} value @returns {[string, unknown][] | null} */
function entriesOf(value) {
  if (value instanceof Typed) return value.value !== null && typeof value.value === "object" ? [[value.type, value.value]] : null;
  if (value instanceof Pairs) return value.entries;
  if (Array.isArray(value)) return value.map((item, i) => [String(i), item]);
  return value !== null && typeof value === "object" ? Object.entries(value) : null;
}

/** @param {string} text */
function one(text) {
  return pieces(text, 200).pieces.map((piece) => piece.text).join("");
}

/** @param {{value: unknown}} props */
function Leaf({ value }) {
  if (value instanceof Typed) return html`<span class="tree-typed">${one(String(value.value))}</span> <span class="tag">${value.type}</span>`;
  if (typeof value === "string") {
    const shown = pieces(value, 2000);
    return html`<span class="tree-string">"${shown.pieces.map((piece) => (piece.escape ? html`<span class="esc">${piece.text}</span>` : piece.text))}"</span>
      ${shown.cut > 0 && html`<span class="cut">… +${number(shown.cut)}</span>`}`;
  }
  const kind = value === null ? "null" : typeof value;
  return html`<span class=${`tree-${kind}`}>${String(value)}</span>`;
}

/** @param {{found: import("./payload_sparkplug.js").Sparkplug}} props */
function Metrics({ found }) {
  const [most, setMost] = useState(ENTRIES);
  return html`<div class="payload-metrics" tabindex="0" role="region" aria-label="Payload as Sparkplug">
    <p class="soft small">${found.at_ms === null ? "no time" : moment(found.at_ms)} · sequence ${found.sequence ?? NONE} · ${number(found.metrics.length + found.more)} metrics</p>
    <table class="list"><thead><tr><th scope="col">metric</th><th scope="col">value</th><th scope="col">type</th><th scope="col">time</th></tr></thead>
      <tbody>${found.metrics.slice(0, most).map((metric, i) => html`<tr key=${i}>
        <td class="mono">${metric.name ? one(metric.name) : `alias ${metric.alias ?? NONE}`}</td>
        <td><${Leaf} value=${metric.value} />${metric.historical && html` <span class="tag">historical</span>`}</td>
        <td>${metric.type}</td><td class="nowrap">${metric.at_ms === null ? NONE : moment(metric.at_ms)}</td></tr>`)}</tbody></table>
    ${found.metrics.length > most && html`<button type="button" class="button quiet" onClick=${() => setMost(most * 4)}>${number(found.metrics.length - most)} more</button>`}
    ${found.more > 0 && html`<p class="soft small">${number(found.more)} metrics more are not shown</p>`}
  </div>`;
}

/** @param {number} ms */
function moment(ms) {
  return Math.abs(ms) < 8.64e15 ? new Date(ms).toISOString() : `${ms} ms`;
}
