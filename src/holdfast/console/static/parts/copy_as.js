/**
 * A button with a menu: each entry copies a text that does what the page shows.
 *
 *     <${CopyAs} address=${location.href} curl=${asCurl("clients")} command="holdfast clients list" />
 *     <${CopyAs} more=${[{ label: "PySpark", text: "…" }]} notes=${["mosquitto_sub cannot say it."]} … />
 */
import { html, useEffect, useId, useRef, useState } from "./html.js";
import { T } from "../texts.js";

/**
 * Puts text on the clipboard, also where the page was not loaded securely.
 * @param {string} text
 */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "visually-hidden";
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

/**
 * @param {{address?: string, curl?: string, command?: string, more?: {label: string, text: string}[], notes?: string[], label?: string}} props
 *     notes: what there is to say of the entries, or of those that are not there
 */
export function CopyAs({ address, curl, command, more = [], notes = [], label = T.copy.label }) {
  const [open, setOpen] = useState(false);
  const [done, setDone] = useState("");
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const button = useRef(/** @type {HTMLElement | null} */ (null));
  const id = useId();
  const items = [
    ...(address ? [{ label: T.copy.address, text: address }] : []),
    ...(curl ? [{ label: T.copy.curl, text: curl }] : []),
    ...(command ? [{ label: T.copy.command, text: command }] : []),
    ...more,
  ];

  useEffect(() => {
    if (!open) return undefined;
    /** @type {HTMLElement | null | undefined} */ (box.current?.querySelector("[role=menuitem]"))?.focus();
    const outside = (/** @type {Event} */ event) => {
      if (!box.current?.contains(/** @type {Node} */ (event.target))) setOpen(false);
    };
    document.addEventListener("pointerdown", outside);
    document.addEventListener("focusin", outside);
    return () => {
      document.removeEventListener("pointerdown", outside);
      document.removeEventListener("focusin", outside);
    };
  }, [open]);

  const keys = (/** @type {KeyboardEvent} */ event) => {
    const entries = /** @type {HTMLElement[]} */ ([...(box.current?.querySelectorAll("[role=menuitem]") ?? [])]);
    const at = entries.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: entries.length - 1 }[event.key];
    if (event.key === "Escape") {
      setOpen(false);
      button.current?.focus();
    } else if (to !== undefined) {
      entries[(to + entries.length) % entries.length]?.focus();
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };

  const choose = async (/** @type {{label: string, text: string}} */ item) => {
    await copy(item.text);
    setDone(item.label);
    setOpen(false);
    button.current?.focus();
  };

  return html`<div class="copy-as" ref=${box} onKeyDown=${open ? keys : undefined}>
    <button type="button" class="button quiet" ref=${button} aria-haspopup="menu" aria-expanded=${open} aria-controls=${id}
      onClick=${() => { setOpen(!open); setDone(""); }}>${label}<span class="caret" aria-hidden="true"></span></button>
    <span role="status" class="copied">${done ? T.copy.done(done) : ""}</span>
    ${open && html`<div class="menu"><div role="menu" id=${id} aria-label=${label} aria-describedby=${notes.length ? `${id}-notes` : undefined}>
      ${items.map((item) => html`<button type="button" role="menuitem" tabindex="-1" key=${item.label} onClick=${() => choose(item)}>
        <span class="menu-label">${item.label}</span><code>${item.text}</code></button>`)}
    </div>${notes.length > 0 && html`<div class="menu-notes soft small" id=${`${id}-notes`}>${notes.map((note) => html`<p key=${note}>${note}</p>`)}</div>`}</div>`}
  </div>`;
}
