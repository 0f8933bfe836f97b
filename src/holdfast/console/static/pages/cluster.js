/**
 * The cluster as this node sees it: what `holdfast cluster status --json` prints, as facts and tables.
 */
import { asCurl } from "../parts/api.js";
import { CopyAs } from "../parts/copy_as.js";
import { duration, number, time } from "../parts/format.js";
import { html } from "../parts/html.js";
import { node } from "../parts/live.js";
import { Name } from "../parts/text.js";
import { T } from "../texts.js";

/** @param {any} value */
const isPlain = (value) => value === null || typeof value !== "object";

/** A value by the unit in its name. @param {string} name @param {any} value */
function shown(name, value) {
  if (typeof value === "number" && name.endsWith("_us")) return time(value);
  if (typeof value === "number" && name.endsWith("_s")) return duration(value);
  if (typeof value === "number") return number(value);
  if (typeof value === "boolean") return value ? T.client.yes : T.client.no;
  if (Array.isArray(value) && value.every(isPlain)) return value.join(", ");
  return html`<${Name} value=${value === null ? "" : typeof value === "object" ? JSON.stringify(value) : String(value)} limit=${300} wrap />`;
}

/** @param {string} name */
const title = (name) => name.replace(/_(us|s)$/, "").replaceAll("_", " ");

/** @param {{name: string, rows: any[]}} props */
function Rows({ name, rows }) {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  return html`<section class="panel"><div class="panel-head"><h2>${title(name)}</h2><span class="soft small">${number(rows.length)}</span></div><div class="list-box"><table class="list">
    <thead><tr>${columns.map((column) => html`<th scope="col" key=${column} class=${typeof rows[0]?.[column] === "number" ? "number" : undefined}>${title(column)}</th>`)}</tr></thead>
    <tbody>${rows.slice(0, 500).map((row, i) => html`<tr key=${i}>${columns.map((column) => html`<td key=${column} class=${typeof row[column] === "number" ? "number" : undefined}>${shown(column, row[column])}</td>`)}</tr>`)}</tbody></table></div></section>`;
}

export function Page() {
  const given = node.value?.cluster;
  const cluster = typeof given === "string" ? (given ? JSON.parse(given) : null) : given;
  if (!cluster) return html`<div class="page"><h1>${T.cluster.title}</h1><p class="soft">${T.cluster.none}</p></div>`;
  const entries = Object.entries(cluster);
  const lists = entries.filter(([, value]) => Array.isArray(value) && value.length > 0 && value.every((/** @type {any} */ one) => !isPlain(one)));
  const facts = entries.filter(([name]) => !lists.some(([list]) => list === name));
  return html`<div class="page"><div class="page-head"><h1>${T.cluster.title}</h1><span class="spring"></span><${CopyAs} address=${location.href} curl=${asCurl("node")} command="holdfast cluster status --json" /></div>
    <section class="panel"><div class="panel-head"><h2>${T.cluster.facts}</h2></div><div class="panel-body"><dl class="facts">${facts.map(([name, value]) => html`<div key=${name}><dt>${title(name)}</dt><dd>${shown(name, value)}</dd></div>`)}</dl></div></section>
    ${lists.map(([name, rows]) => html`<${Rows} key=${name} name=${name} rows=${rows} />`)}</div>`;
}
