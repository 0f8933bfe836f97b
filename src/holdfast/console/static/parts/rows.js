/**
 * Rows of a list that the API gives in pages with cursors, as if they were an array of any length.
 *
 * Rules:
 * 1. A cursor leads only forwards. The cursor of every page that was passed is kept, so that the way back needs no more.
 * 2. Rows of at most KEPT pages stay in memory; the others are asked for again when they come into view.
 * 3. Only one request runs at a time. A jump far ahead goes there in the largest steps that the API allows.
 */
import { get } from "./api.js";
import { signal, useEffect, useMemo, useState } from "./html.js";

const FIRST = 100;
const STEP = 200;
const LARGEST = 1000;
const KEPT = 12;

/**
 * @template T
 * @typedef {{start: number, count: number, cursor: string | null, rows: T[] | null, used: number}} Page
 */

/** @template T */
export class CursorRows {
  /**
   * @param {string} path
   * @param {import("./api.js").Params} params
   * @param {{fields?: string[], first?: number}} [options] fields: names that the list may have in the answer; first: rows of the
   *   first page
   */
  constructor(path, params, { fields = ["items"], first = FIRST } = {}) {
    this.path = path;
    this.params = params;
    this.fields = fields;
    this.first = first;
    /** @type {Page<T>[]} */
    this.pages = [];
    /** @type {string | null} the cursor behind the last page that is known */
    this.next = null;
    this.ended = false;
    /** Changes whenever something arrived. */
    this.version = signal(0);
    /** @type {import("./api.js").ApiError | null} */
    this.error = null;
    /** @type {any} the newest answer without its list */
    this.head = null;
    this.loading = false;
    this.wanted = [0, 0];
    this.uses = 0;
    this.control = new AbortController();
  }

  /** How many rows the list has, as far as that is known. */
  get length() {
    const known = this.known;
    if (this.ended) return known;
    return Math.max(this.head?.matched ?? 0, known + (this.head ? 1 : 0));
  }

  get known() {
    const last = this.pages.at(-1);
    return last ? last.start + last.count : 0;
  }

  /** @param {number} index @returns {T | undefined} undefined while it is not there */
  row(index) {
    const page = this.pageOf(index);
    return page?.rows?.[index - page.start];
  }

  /** Rows that are in memory, in their order. */
  get loaded() {
    return this.pages.flatMap((page) => page.rows ?? []);
  }

  /** Asks for all that is shown again, as after a change. */
  async renew() {
    for (const page of this.pages.slice(1)) page.rows = null;
    if (this.pages[0] && !this.loading) await this.ask(this.pages[0]);
  }

  /** @param {number} index */
  pageOf(index) {
    let low = 0;
    let high = this.pages.length - 1;
    while (low <= high) {
      const middle = (low + high) >> 1;
      const page = /** @type {Page<T>} */ (this.pages[middle]);
      if (index < page.start) high = middle - 1;
      else if (index >= page.start + page.count) low = middle + 1;
      else {
        page.used = this.uses += 1;
        return page;
      }
    }
    return undefined;
  }

  /**
   * Says which rows are in view; asks for those that are missing.
   * @param {number} first
   * @param {number} last
   */
  ensure(first, last) {
    this.wanted = [first, last];
    if (!this.error) this.load();
  }

  /** Asks for the first page again, if that is all there is, so that a list at rest stays fresh. */
  async refresh() {
    if (this.loading || this.pages.length !== 1) return;
    await this.ask(/** @type {Page<T>} */ (this.pages[0]));
  }

  /** Tries again after an error. */
  again() {
    this.error = null;
    this.load();
  }

  close() {
    this.control.abort();
  }

  /** @returns {Promise<void>} */
  async load() {
    if (this.loading) return undefined;
    const [first, last] = /** @type {[number, number]} */ (this.wanted);
    if (this.known === 0 && !this.ended) return this.ask(null, this.first);
    for (const index of [first, last]) {
      const page = this.pageOf(index);
      if (page && !page.rows) return this.ask(page);
    }
    if (last >= this.known && !this.ended) return this.ask(null, last - this.known > STEP ? LARGEST : STEP);
    return undefined;
  }

  /**
   * @param {Page<T> | null} page a known one again, or null for the next
   * @param {number} [limit]
   */
  async ask(page, limit = STEP) {
    this.loading = true;
    const cursor = page ? page.cursor : this.next;
    try {
      const answer = await get(this.path, { ...this.params, limit: page ? Math.max(page.count, 1) : limit, cursor }, { signal: this.control.signal });
      const field = this.fields.find((name) => Array.isArray(answer[name])) ?? "items";
      const { [field]: list = [], ...head } = answer;
      this.head = head;
      if (page) {
        page.rows = list;
        if (this.pages.length === 1) {
          page.count = list.length;
          this.end(head.next_cursor ?? null);
        }
      } else {
        this.pages.push({ start: this.known, count: list.length, cursor, rows: list, used: this.uses += 1 });
        this.end(head.next_cursor ?? null);
      }
      this.forget();
      this.loading = false;
    } catch (error) {
      this.loading = false;
      if (this.control.signal.aborted) return;
      this.error = /** @type {import("./api.js").ApiError} */ (error);
    }
    this.version.value += 1;
    if (!this.error) await this.load();
  }

  /** @param {string | null} cursor */
  end(cursor) {
    this.next = cursor;
    this.ended = cursor === null;
  }

  forget() {
    const held = this.pages.filter((page) => page.rows);
    if (held.length <= KEPT) return;
    held.sort((a, b) => a.used - b.used);
    for (const page of held.slice(0, held.length - KEPT)) page.rows = null;
  }
}

/**
 * Rows of a list for a component. Those of the question before stay until the first page of a new one is there.
 * @param {string | null} path null for no rows
 * @param {import("./api.js").Params} params
 * @param {{fields?: string[], first?: number, refresh_s?: number}} [options] refresh_s: how often a list that fits one page is asked for again
 * @returns {CursorRows<any> | null}
 */
export function useCursorRows(path, params, { fields, first, refresh_s = 0 } = {}) {
  const [shown, setShown] = useState(/** @type {CursorRows<any> | null} */ (null));
  const key = JSON.stringify([path, params]);
  const next = useMemo(() => (path === null ? null : new CursorRows(path, params, { fields, first })), [key]);
  useEffect(() => {
    if (!next) {
      setShown(null);
      return undefined;
    }
    const end = next.version.subscribe((version) => {
      if (version > 0) setShown(next);
    });
    next.load();
    return () => {
      end();
      next.close();
    };
  }, [next]);
  useEffect(() => {
    if (!refresh_s || !shown) return undefined;
    const timer = setInterval(() => {
      if (!document.hidden) shown.refresh();
    }, refresh_s * 1000);
    return () => clearInterval(timer);
  }, [shown, refresh_s]);
  return shown ?? next;
}

/**
 * Rows that are all there.
 * @template T
 */
export class ArrayRows {
  /** @param {T[]} rows */
  constructor(rows) {
    this.rows = rows;
    this.version = signal(0);
    this.error = null;
    this.head = null;
    this.loading = false;
    this.ended = true;
  }

  get length() {
    return this.rows.length;
  }

  /** @param {number} index */
  row(index) {
    return this.rows[index];
  }

  ensure() {}

  again() {}
}
