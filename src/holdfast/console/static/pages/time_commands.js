/**
 * What the time machine shows, as texts to paste: commands, calls, programs. Each gives the messages of the range, its
 * numbers, or the state at A.
 *
 * A topic, client or payload may hold anything: every text goes through the quoting of its language.
 */
import { asCurl, quote } from "../parts/api.js";
import { isoShort } from "./time_view.js";

/** @typedef {import("./time_view.js").View} View */

/** A string of Python, on one line. @param {string} text */
export function python(text) {
  // eslint-disable-next-line no-control-regex
  return JSON.stringify(text).replace(/[\u007f-\u{10ffff}]/gu, (sign) => {
    const code = /** @type {number} */ (sign.codePointAt(0)).toString(16);
    return code.length > 4 ? `\\U${code.padStart(8, "0")}` : `\\u${code.padStart(4, "0")}`;
  });
}

/** A string of Spark SQL. @param {string} text */
export function sql(text) {
  return `'${text.replace(/[\\']/g, "\\$&").replaceAll("\n", "\\n").replaceAll("\r", "\\r")}'`;
}

/** A filter as a pattern of RLIKE; wildcards at the beginning do not match topics that begin with $. @param {string} filter */
export function filterPattern(filter) {
  const levels = filter.split("/");
  const parts = levels.map((level) => (level === "+" ? "[^/]*" : level === "#" ? "" : level.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")));
  const begin = levels[0] === "+" || levels[0] === "#" ? "^(?!\\$)" : "^";
  if (levels.at(-1) !== "#") return `${begin}${parts.join("/")}$`;
  return levels.length === 1 ? begin : `${begin}${parts.slice(0, -1).join("/")}(/.*)?$`;
}

/**
 * Entries of "Copy as".
 * @param {View} view with a range
 * @param {string} address of the page
 * @param {any} node the answer of GET node
 * @returns {{label: string, text: string}[]}
 */
export function commandsOf(view, address, node) {
  const folder = node?.data_folder ?? "/var/lib/holdfast/data";
  const { host, port } = brokerOf(node);
  const where = brokerOptions(node);
  const from = isoShort(view.from ?? 0);
  const to = isoShort(view.to ?? 0);
  const filter = view.filter;
  const params = { filter, zone: view.zone, from: view.from, to: view.to, at: view.at, client: view.client, payload: view.payload, direction: "older", limit: 100 };
  return [
    { label: "Address", text: address },
    { label: "mosquitto_sub, from the beginning of the range", text: `mosquitto_sub${where} -v -t ${quote(`$replay/${from}/${filter}`)}` },
    { label: "holdfast sub", text: `holdfast sub ${quote(filter)} --replay-from ${from} --replay-until ${to}${where}` },
    { label: "holdfast replay", text: `holdfast replay ${quote(filter)} --from ${from} --until ${to} --json${where}` },
    { label: "holdfast export", text: `holdfast export ${quote(filter)} --since ${from} --until ${to} --by-time --data ${quote(folder)} --output messages.jsonl` },
    { label: "holdfast state", text: stateCommand(view, folder) },
    { label: "holdfast density", text: `holdfast density ${quote(filter)} --since ${from} --until ${to}${zoneOption(view)} --data ${quote(folder)}` },
    { label: "curl", text: asCurl("history/messages", params) },
    { label: "Python", text: pythonClient(filter, from, to, `mqtt://${host}${port === 1883 ? "" : `:${port}`}`) },
    { label: "PySpark", text: pyspark(view, from, to, folder) },
    { label: "SQL (holdfast spark sql)", text: sqlOf(view) },
  ];
}

/** @param {View} view */
const zoneOption = (view) => (view.zone ? ` --zone ${quote(view.zone)}` : "");

/** The state at A, or what is different between A and B. @param {View} view @param {string} folder */
function stateCommand(view, folder) {
  const at = view.at ?? view.to ?? 0;
  const [earlier, later] = view.b === null ? [null, at] : [Math.min(at, view.b), Math.max(at, view.b)];
  const words = [`holdfast state ${quote(view.filter)} --at ${isoShort(later)}`];
  if (earlier !== null) words.push(`--compare ${isoShort(earlier)}`);
  else if (view.retained) words.push("--retained");
  words.push(`--look-back-s ${view.lookBack_s}${zoneOption(view)} --data ${quote(folder)}`);
  return words.join(" ");
}

/** Options that name the broker, where they are not the default. @param {any} node */
export function brokerOptions(node) {
  const { host, port } = brokerOf(node);
  return `${host === "127.0.0.1" ? "" : ` -h ${quote(host)}`}${port === 1883 ? "" : ` -p ${port}`}`;
}

/**
 * Where clients reach the broker: the listener without TLS, at the console's own host.
 * @param {any} node
 */
function brokerOf(node) {
  const listener = (node?.listeners ?? []).find((/** @type {any} */ one) => one.kind === "tcp" || one.name === "default");
  const { hostname } = location;
  return { host: !hostname || hostname === "localhost" ? "127.0.0.1" : hostname, port: listener?.port ?? 1883 };
}

/** @param {string} filter @param {string} from @param {string} to @param {string} url */
function pythonClient(filter, from, to, url) {
  return `import asyncio

from holdfast.client import Client, ConnectionOptions
from holdfast.wire.properties import Properties

REPLAY = Properties(
    user_properties=(("replay-from", ${python(from)}), ("replay-until", ${python(to)}), ("replay-end", "replay/end"))
)


async def main() -> None:
    async with Client(ConnectionOptions.from_url(${python(url)})) as client:
        await client.subscribe(${python(filter)}, qos=1, properties=REPLAY)
        while (message := await client.receive()).topic != "replay/end":
            print(message.topic, message.payload)
            client.acknowledge(message)


asyncio.run(main())
`;
}

/** @param {View} view @param {string} from @param {string} to @param {string} folder */
function pyspark(view, from, to, folder) {
  const zone = view.zone ? `.option("zone", ${python(view.zone)})` : "";
  const client = view.client ? `messages = messages.where(messages.client_id == ${python(view.client)})\n` : "";
  return `from holdfast.pipeline import session

spark = session()
messages = spark.read.format("holdfast").option("topicFilter", ${python(view.filter)})${zone}
messages = messages.option("startingTime", ${python(from)}).option("endingTime", ${python(to)}).load(${python(folder)})
${client}messages.orderBy("ts").show(100, truncate=False)
`;
}

/** @param {View} view */
function sqlOf(view) {
  const conditions = [`offset >= ${view.from}`, `offset < ${view.to}`];
  conditions.unshift(/[+#]/.test(view.filter) ? `topic RLIKE ${sql(filterPattern(view.filter))}` : `topic = ${sql(view.filter)}`);
  if (view.client) conditions.push(`client_id = ${sql(view.client)}`);
  return `SELECT ts, topic, client_id, qos, CAST(payload AS STRING) AS payload\nFROM history\nWHERE ${conditions.join("\n  AND ")}\nORDER BY ts DESC\nLIMIT 100`;
}
