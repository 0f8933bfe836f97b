/**
 * A list of rows of one height, of which only those in view are in the page. Rows may be added at both ends.
 *
 * It is a grid with one stop of the keyboard: arrows, Page, Home and End move the active row, which is also the chosen one.
 * Row count and row index are those of the whole list.
 */
import { classes, html, useId, useLayoutEffect, useRef, useState } from "../parts/html.js";

export const ROW_PX = 30;
const SPARE = 6;

/**
 * @template R
 * @typedef {{key: string, label: any, cell: (row: R) => any, class?: string}} Column
 */

/**
 * @param {object} props
 * @param {string} props.name of the class that lays out the columns
 * @param {string} props.label
 * @param {Column<any>[]} props.columns
 * @param {any[]} props.rows a row with `separator` is drawn as that, over the whole width
 * @param {(row: any) => string} props.rowKey
 * @param {string | null} props.active
 * @param {(row: any) => void} props.onActive
 * @param {number} [props.above] rows that were added above since `reset` changed; what is seen stays where it is
 * @param {string} [props.reset] when it changes the list begins at its top
 * @param {() => void} [props.onEnd] the end is nearly in view
 * @param {any} [props.empty]
 */
export function Grid({ name, label, columns, rows, rowKey, active, onActive, above = 0, reset = "", onEnd, empty }) {
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const id = useId();
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(400);
  const first = Math.max(0, Math.floor(top / ROW_PX) - SPARE);
  const last = Math.min(rows.length, Math.ceil((top + height) / ROW_PX) + SPARE);
  const at = active === null ? -1 : rows.findIndex((row) => !row.separator && rowKey(row) === active);

  useLayoutEffect(() => {
    const element = /** @type {HTMLDivElement} */ (box.current);
    const sizes = new ResizeObserver(() => setHeight(element.clientHeight));
    sizes.observe(element);
    return () => sizes.disconnect();
  }, []);
  const before = useRef({ above, reset });
  useLayoutEffect(() => {
    const element = /** @type {HTMLDivElement} */ (box.current);
    if (before.current.reset !== reset) element.scrollTop = 0;
    else if (above > before.current.above) element.scrollTop += (above - before.current.above) * ROW_PX;
    before.current = { above, reset };
    setTop(element.scrollTop);
  }, [above, reset]);
  useLayoutEffect(() => {
    if (onEnd && rows.length && last >= rows.length - 5) onEnd();
  }, [last, rows.length]);

  const go = (/** @type {number} */ to) => {
    const way = to >= at ? 1 : -1;
    let next = Math.min(Math.max(to, 0), rows.length - 1);
    while (rows[next]?.separator) next += way;
    const row = rows[next];
    if (!row) return;
    const element = /** @type {HTMLDivElement} */ (box.current);
    const head = ROW_PX;
    if (next * ROW_PX < element.scrollTop) element.scrollTop = next * ROW_PX;
    if ((next + 1) * ROW_PX + head > element.scrollTop + element.clientHeight) element.scrollTop = (next + 1) * ROW_PX + head - element.clientHeight;
    setTop(element.scrollTop);
    onActive(row);
  };
  const keys = (/** @type {KeyboardEvent} */ event) => {
    if (event.target !== event.currentTarget) return;
    const page = Math.max(1, Math.floor(height / ROW_PX) - 2);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: rows.length - 1 }[event.key];
    if (to === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    go(to);
  };

  return html`<div class=${classes("time-grid", name)} ref=${box} role="grid" aria-label=${label} tabindex="0"
    aria-rowcount=${rows.length + 1} aria-colcount=${columns.length} aria-activedescendant=${at >= first && at < last ? `${id}-${at}` : undefined}
    onScroll=${(/** @type {Event} */ event) => setTop(/** @type {HTMLElement} */ (event.currentTarget).scrollTop)} onKeyDown=${keys}>
    <div role="rowgroup" class="time-grid-head"><div role="row" aria-rowindex="1" class="time-grid-row">
      ${columns.map((column) => html`<div role="columnheader" key=${column.key} class=${column.class}>${column.label}</div>`)}</div></div>
    <div role="rowgroup" class="time-grid-body" style=${{ height: `${rows.length * ROW_PX}px` }}>
      ${rows.slice(first, last).map((row, i) => html`<${GridRow} key=${row.separator ? "separator" : rowKey(row)} id=${`${id}-${first + i}`} row=${row} index=${first + i}
        columns=${columns} chosen=${first + i === at} onActive=${onActive} />`)}
    </div>
    ${rows.length === 0 && empty && html`<div role="rowgroup"><div role="row"><div role="gridcell" class="time-grid-empty" aria-colspan=${columns.length}>${empty}</div></div></div>`}
  </div>`;
}

/** @param {{id: string, row: any, index: number, columns: Column<any>[], chosen: boolean, onActive: (row: any) => void}} props */
function GridRow({ id, row, index, columns, chosen, onActive }) {
  const place = { transform: `translateY(${index * ROW_PX}px)` };
  if (row.separator) {
    return html`<div role="row" id=${id} aria-rowindex=${index + 2} class="time-grid-row time-grid-separator" style=${place}>
      <div role="gridcell" aria-colspan=${columns.length}>${row.separator}</div></div>`;
  }
  return html`<div role="row" id=${id} aria-rowindex=${index + 2} aria-selected=${chosen} class=${classes("time-grid-row", row.class)} style=${place}
    onClick=${() => onActive(row)}>
    ${columns.map((column) => html`<div role="gridcell" key=${column.key} class=${column.class}>${column.cell(row)}</div>`)}</div>`;
}
