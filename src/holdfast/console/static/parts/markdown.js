/**
 * Markdown as the documents of this repository use it, as elements: headings, paragraphs, lists, tables, code, links.
 *
 *     blocksOf(text)                        what stands there
 *     html`<${Markdown} blocks=${blocks} />`
 *
 * 1. What is read becomes text and elements, never markup.
 * 2. A link within the document leads there; what another document says is named by its path, since only this one is here.
 */
import { html } from "./html.js";

/**
 * @typedef {{kind: "heading", level: number, text: string, id: string} | {kind: "code", text: string} | {kind: "text", text: string}
 *   | {kind: "list", ordered: boolean, items: Block[][]} | {kind: "table", head: string[], rows: string[][]}} Block
 */

const FENCE = /^```/;
const ITEM = /^(-|\d+\.) +/;
const HEADING = /^(#{1,4}) (.+)$/;

/** The name of a heading in an address. @param {string} heading */
export function anchorOf(heading) {
  return heading.toLowerCase().replace(/[^\p{L}\p{N}_ -]/gu, "").replaceAll(" ", "-");
}

/**
 * @param {string} text
 * @returns {Block[]}
 */
export function blocksOf(text) {
  return read(text.replace(/<!--[^]*?-->/g, "").split(/\r?\n/));
}

/** @param {string[]} lines @returns {Block[]} */
function read(lines) {
  /** @type {Block[]} */
  const blocks = [];
  let at = 0;
  const line = () => lines[at] ?? "";
  while (at < lines.length) {
    const heading = HEADING.exec(line());
    if (line().trim() === "") {
      at += 1;
    } else if (heading) {
      blocks.push({ kind: "heading", level: /** @type {string} */ (heading[1]).length, text: heading[2] ?? "", id: anchorOf(heading[2] ?? "") });
      at += 1;
    } else if (FENCE.test(line())) {
      const end = lines.findIndex((one, i) => i > at && FENCE.test(one));
      blocks.push({ kind: "code", text: lines.slice(at + 1, end < 0 ? undefined : end).join("\n") });
      at = end < 0 ? lines.length : end + 1;
    } else if (line().startsWith("|")) {
      const rows = [];
      for (; line().startsWith("|"); at += 1) rows.push(cellsOf(line()));
      blocks.push({ kind: "table", head: rows[0] ?? [], rows: rows.slice(2) });
    } else if (ITEM.test(line())) {
      const ordered = !line().startsWith("-");
      const items = [];
      while (at < lines.length && ITEM.test(line()) && line().startsWith("-") !== ordered) {
        const indent = /** @type {RegExpExecArray} */ (ITEM.exec(line()))[0].length;
        const own = [line().slice(indent)];
        // What is indented belongs to it, with empty lines in between.
        for (at += 1; at < lines.length; at += 1) {
          const next = lines.slice(at).find((one) => one.trim() !== "") ?? "";
          if (!next.startsWith(" ".repeat(indent))) break;
          own.push(line().slice(indent));
        }
        items.push(read(own));
        while (at < lines.length && line().trim() === "" && ITEM.test(lines.slice(at).find((one) => one.trim() !== "") ?? "")) at += 1;
      }
      blocks.push({ kind: "list", ordered, items });
    } else {
      const begin = at;
      for (at += 1; at < lines.length && line().trim() !== "" && !HEADING.test(line()) && !FENCE.test(line()) && !line().startsWith("|") && !ITEM.test(line()); at += 1);
      blocks.push({ kind: "text", text: lines.slice(begin, at).map((one) => one.trim()).join(" ") });
    }
  }
  return blocks;
}

/** @param {string} line */
function cellsOf(line) {
  return line.replace(/^\||\|\s*$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

const INLINE = /`([^`]+)`|\*\*([^*]+)\*\*|\*([^*]+)\*|\[([^\]]+)\]\(([^)]+)\)/g;

/** Text with code, stress and links. @param {{text: string}} props */
function Inline({ text }) {
  /** @type {any[]} */
  const parts = [];
  let end = 0;
  for (const found of text.matchAll(INLINE)) {
    const [whole, code, strong, em, label, to] = found;
    parts.push(text.slice(end, found.index));
    end = found.index + whole.length;
    if (code !== undefined) parts.push(html`<code>${code}</code>`);
    else if (strong !== undefined) parts.push(html`<strong><${Inline} text=${strong} /></strong>`);
    else if (em !== undefined) parts.push(html`<em>${em}</em>`);
    else if (to?.startsWith("#")) parts.push(html`<a href=${to}><${Inline} text=${label ?? ""} /></a>`);
    else parts.push(html`<span><${Inline} text=${label ?? ""} /> <span class="soft">(docs/${to?.split("#")[0]})</span></span>`);
  }
  parts.push(text.slice(end));
  return html`${parts}`;
}

/** @param {{blocks: Block[]}} props */
export function Markdown({ blocks }) {
  return html`${blocks.map((block, i) => html`<${Piece} key=${i} block=${block} />`)}`;
}

/** @param {{block: Block}} props */
function Piece({ block }) {
  switch (block.kind) {
    case "heading": return html`<${`h${block.level}`} id=${block.id} tabindex="-1"><${Inline} text=${block.text} /></${`h${block.level}`}>`;
    case "code": return html`<pre tabindex="0"><code>${block.text}</code></pre>`;
    case "table": return html`<div class="list-box" tabindex="0" role="group" aria-label=${block.head.join(", ")}><table class="list"><thead><tr>${block.head.map((cell, i) => html`<th scope="col" key=${i}><${Inline} text=${cell} /></th>`)}</tr></thead>
      <tbody>${block.rows.map((row, i) => html`<tr key=${i}>${row.map((cell, j) => html`<td key=${j}><${Inline} text=${cell} /></td>`)}</tr>`)}</tbody></table></div>`;
    case "list": {
      const items = block.items.map((item, i) => html`<li key=${i}><${Markdown} blocks=${item} /></li>`);
      return block.ordered ? html`<ol>${items}</ol>` : html`<ul>${items}</ul>`;
    }
    default: return html`<p><${Inline} text=${block.text} /></p>`;
  }
}
