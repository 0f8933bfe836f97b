/**
 * A table of any length. Only the rows in view are in the page, at most MOST of them.
 *
 * Rules:
 * 1. The table sticks to the window of its scroll box; a tall element behind it makes the scroll bar. What scrolls is the
 *    number of the first row, so that rows never run out while one scrolls.
 * 2. A browser cannot lay out more than some ten million pixels: above TALLEST the bar is a scale, not a length.
 * 3. It is a grid: one row takes the focus, arrows, Page, Home and End move it, Enter opens it. Row count and row index
 *    are those of the whole list.
 */
import { NONE, number } from "./format.js";
import { classes, html, useEffect, useLayoutEffect, useRef, useState } from "./html.js";
import { Problem } from "./text.js";
import { T } from "../texts.js";

const MOST = 120;
const TALLEST = 8_000_000;

/**
 * @template R
 * @typedef {object} Column
 * @property {string} key
 * @property {any} label
 * @property {(row: R) => any} cell
 * @property {string} [width] as CSS
 * @property {string} [narrow] the width where there is little room
 * @property {boolean} [number] aligned at the end
 * @property {string} [sort] the API's name for sorting by it
 * @property {1 | 2 | 3} [rank] 3 is left out first where there is little room
 */

/**
 * @param {{label: string, rows: import("./rows.js").CursorRows<any> | import("./rows.js").ArrayRows<any>, columns: Column<any>[],
 *   sort?: string, onSort?: (sort: string) => void, onOpen?: (row: any) => void, empty?: any, foot?: any, rowClass?: (row: any) => string, above?: string,
 *   isSelected?: (row: any) => boolean, onSelect?: (row: any) => void}} props
 *   above: how much of the window other parts take, as CSS; onSelect: the blank chooses a row, or gives it up
 */
export function Table({ label, rows, columns, sort = "", onSort, onOpen, empty, foot, rowClass, above, isSelected, onSelect }) {
  rows.version.value;
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const [view, setView] = useState({ height: 600, width: 1000, row: 36 });
  const [top, setTop] = useState(0);
  const [active, setActive] = useState(0);
  const focusNext = useRef(false);

  const total = rows.length;
  const seen = Math.max(1, Math.ceil((view.height - view.row) / view.row));
  const drawn = Math.min(MOST, seen + 1);
  const tall = Math.min(total * view.row, TALLEST);
  const scaled = total * view.row > TALLEST;
  const range = Math.max(1, tall + view.row - view.height);
  const exact = scaled ? (top / range) * Math.max(0, total - seen) : top / view.row;
  const first = Math.max(0, Math.min(Math.floor(exact), Math.max(0, total - 1)));
  const last = Math.min(total, first + drawn) - 1;
  const shown = columns.filter((column) => (column.rank ?? 1) <= (view.width < 520 ? 1 : view.width < 900 ? 2 : 3));

  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const measure = () => {
      const row = element.querySelector("thead tr")?.getBoundingClientRect().height || 36;
      setView((old) => {
        const now = { height: Math.max(element.clientHeight, row * 4), width: element.clientWidth, row };
        return now.height === old.height && now.width === old.width && now.row === old.row ? old : now;
      });
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  // Another list begins at its top.
  useEffect(() => {
    if (box.current) box.current.scrollTop = 0;
    setTop(0);
    setActive(0);
  }, [rows]);

  useEffect(() => rows.ensure(first, Math.max(first, last)), [rows, first, last, rows.version.value]);

  // The tall box ends where the rows end; the table is moved by the part of a row that is above the window.
  const part = scaled ? 0 : exact - first;

  const show = (/** @type {number} */ index) => {
    const element = box.current;
    if (!element) return;
    const full = Math.max(1, Math.floor((view.height - view.row) / view.row));
    const at = scaled ? exact : element.scrollTop / view.row;
    let to = at;
    if (index < at) to = index;
    else if (index >= at + full) to = index - full + 1;
    if (to !== at) element.scrollTop = scaled ? (to / Math.max(1, total - seen)) * range : to * view.row;
    setTop(element.scrollTop);
  };

  const keys = (/** @type {KeyboardEvent} */ event) => {
    const target = /** @type {HTMLElement} */ (event.target);
    if (target.closest("thead")) return;
    const page = Math.max(1, seen - 2);
    const to = { ArrowDown: active + 1, ArrowUp: active - 1, PageDown: active + page, PageUp: active - page, Home: 0, End: total - 1 }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      const index = Math.max(0, Math.min(total - 1, to));
      focusNext.current = true;
      setActive(index);
      show(index);
    } else if (event.key === "Enter" && target.tagName === "TR" && onOpen) {
      const row = rows.row(active);
      if (row) onOpen(row);
    } else if (event.key === " " && target.tagName === "TR" && onSelect) {
      event.preventDefault();
      const row = rows.row(active);
      if (row) onSelect(row);
    }
  };

  useLayoutEffect(() => {
    if (!focusNext.current) return;
    const row = /** @type {HTMLElement | null | undefined} */ (box.current?.querySelector(`tr[data-index="${active}"]`));
    if (row) {
      focusNext.current = false;
      row.focus({ preventScroll: true });
    }
  });

  const tabStop = active >= first && active <= last ? active : first;
  const body = [];
  for (let index = first; index <= last; index += 1) {
    const row = rows.row(index);
    body.push(html`<tr key=${index} data-index=${index} aria-rowindex=${index + 2} aria-selected=${row && isSelected ? String(isSelected(row)) : undefined} tabindex=${index === tabStop ? 0 : -1}
      class=${classes(onOpen && "opens", !row && "waiting", row && rowClass?.(row))}
      onFocus=${() => setActive(index)}
      onClick=${row && onOpen && ((/** @type {MouseEvent} */ event) => {
        if (!(/** @type {Element} */ (event.target).closest("a, button, input"))) onOpen(row);
      })}>
      ${shown.map((column) => html`<td key=${column.key} class=${column.number ? "number" : undefined}>${row ? column.cell(row) : NONE}</td>`)}</tr>`);
  }

  const nextSort = (/** @type {Column<any>} */ column) => {
    const up = column.sort ?? "";
    const numbersFirst = column.number ? [`-${up}`, up] : [up, `-${up}`];
    onSort?.(/** @type {string} */ (sort === numbersFirst[0] ? numbersFirst[1] : numbersFirst[0]));
  };

  return html`<div>
    <${Problem} error=${rows.error} again=${() => rows.again()} />
    <div class="rows" ref=${box} onScroll=${(/** @type {any} */ event) => setTop(event.target.scrollTop)} onKeyDown=${keys}
      style=${above ? { "--rows-above": above } : undefined}>
      <div class="rows-size" style=${{ height: total === 0 ? "auto" : `${tall + view.row}px` }}>
        <div class="rows-window" style=${{ maxHeight: `${view.height}px` }}>
          <table role="grid" aria-label=${label} aria-multiselectable=${onSelect ? "true" : undefined} aria-rowcount=${rows.ended || rows.head?.matched !== undefined ? total + 1 : -1} aria-busy=${rows.loading}>
            <thead><tr aria-rowindex="1">${shown.map((column) => html`<th key=${column.key} scope="col" class=${column.number ? "number" : undefined}
              style=${{ width: (view.width < 520 ? column.narrow : column.width) ?? "auto" }}
              aria-sort=${column.sort && onSort ? (sort === column.sort ? "ascending" : sort === `-${column.sort}` ? "descending" : "none") : undefined}>
              ${column.sort && onSort ? html`<button type="button" class="sort" onClick=${() => nextSort(column)}>${column.label}</button>` : column.label}</th>`)}</tr></thead>
            <tbody style=${{ transform: `translateY(${-part * view.row}px)` }}>${body}</tbody>
          </table>
          ${total === 0 && !rows.loading && !rows.error && html`<p class="empty">${empty ?? T.table.empty}</p>`}
        </div>
      </div>
    </div>
    <div class="rows-foot"><span>${rows.loading && total === 0 ? T.table.loading : T.table.rows(number(total), rows.ended || rows.head?.matched !== undefined)}</span>${foot}</div>
  </div>`;
}
