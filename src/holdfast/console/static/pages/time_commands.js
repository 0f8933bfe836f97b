/**
 * What the time machine shows, as texts to paste: commands, calls, programs. Each gives the messages of the range, its
 * numbers, or the state at A.
 *
 * A topic, client or payload may hold anything: every text goes through the quoting of its language.
 */
import { asCurl, quote, ROOT } from "../parts/api.js";
import { T } from "../texts.js";
import { isoShort, LIVE_SPAN_S, PAGE, PLOT_POINTS } from "./time_view.js";

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

/** Whether a search is a condition on JSON, and not a text. @param {string} payload */
const isCondition = (payload) => /^\$([.[]|\s*([=<>]|!=|contains\b))/.test(payload);

/**
 * @typedef {object} Shown what the page shows, beside its address
 * @property {boolean} live
 * @property {number} buckets of the strip of the range
 * @property {string[]} topics that are plotted
 * @property {any[]} zones of the answer of GET history/zones
 */
/** @typedef {{label: string, text: string}} Entry */

/**
 * Entries of "Copy as", and what is to be said of them. A tool that cannot say what the page shows has no entry.
 * @param {View} view with a range
 * @param {string} address of the page
 * @param {any} node the answer of GET node
 * @param {Shown} shown
 * @returns {{entries: Entry[], notes: string[]}}
 */
export function commandsOf(view, address, node, shown) {
  const folder = node?.data_folder ?? "/var/lib/holdfast/data";
  const narrowed = [view.zone && T.copy.zone, view.client && T.copy.client, view.payload && T.copy.payload].filter(Boolean);
  const { entries, left } = shown.live ? liveEntries(view, node, folder, shown) : rangeEntries(view, node, folder, shown);
  const notes = [];
  if (left.length) notes.push(T.copy.left(left, narrowed));
  if (view.client || view.payload) notes.push(T.copy.filterAlone);
  return { entries: [{ label: T.copy.address, text: address }, ...entries], notes };
}

/**
 * @param {View} view
 * @param {any} node
 * @param {string} folder
 * @param {Shown} shown
 * @returns {{entries: Entry[], left: string[]}}
 */
function rangeEntries(view, node, folder, { buckets, topics, zones }) {
  const where = brokerOptions(node);
  const from = isoShort(view.from ?? 0);
  const to = isoShort(view.to ?? 0);
  const { filter, zone, client, payload } = view;
  const plain = !zone && !client && !payload;
  const range = { from: view.from, to: view.to };
  const statement = sqlOf(view, zones);
  /** @type {[string, string | null][]} null: it cannot be said */
  const all = [
    [T.copy.mosquitto, plain ? `mosquitto_sub${where} -v -t ${quote(`$replay/${from}/${filter}`)}` : null],
    [T.copy.sub, plain ? withFilter("holdfast sub", filter, `--replay-from ${from} --replay-until ${to}${where}`) : null],
    [T.copy.replay, plain ? withFilter("holdfast replay", filter, `--from ${from} --until ${to} --json${where}`) : null],
    [T.copy.export, plain ? withFilter("holdfast export", filter, `--since ${from} --until ${to} --by-time --data ${quote(folder)} --output messages.jsonl`) : null],
    [T.copy.state, stateCommand(view, folder)],
    [T.copy.density, withFilter("holdfast density", filter, `--since ${from} --until ${to} --buckets ${buckets}${zoneOption(view)} --data ${quote(folder)}`)],
    [T.copy.curl, asCurl("history/messages", { filter, zone, ...range, at: view.at, client, payload, direction: "older", limit: PAGE })],
    [T.copy.curlExport, payload ? null : `${asCurl("history/export", { filter, zone, ...range, client, format: "jsonl" })} -o messages.jsonl`],
    [T.copy.curlState, asCurl("history/state", { filter, zone, at: view.at, look_back_s: view.lookBack_s, retained: view.retained ? 1 : 0 })],
    ...curlCompare(view),
    [T.copy.curlDensity, asCurl("history/density", { filter, zone, ...range, buckets })],
    ...curlPlot(view, topics, range),
    [T.copy.python, plain ? pythonClient(filter, from, to, urlOf(node)) : pythonPages({ filter, zone, client, payload, from, to })],
    [T.copy.pyspark, pyspark(view, from, to, folder)],
    [T.copy.sql, statement],
  ];
  return { entries: offered(all), left: all.filter(([, text]) => text === null).map(([label]) => label) };
}

/**
 * Of a range that moves: its end is now.
 * @param {View} view
 * @param {any} node
 * @param {string} folder
 * @param {Shown} shown
 * @returns {{entries: Entry[], left: string[]}}
 */
function liveEntries(view, node, folder, { buckets, topics }) {
  const where = brokerOptions(node);
  const { filter, zone, client, payload } = view;
  const plain = !zone && !client && !payload;
  const range = { from: `-${LIVE_SPAN_S}s` };
  /** @type {[string, string | null][]} null: it cannot be said */
  const all = [
    [T.copy.mosquittoLive, plain ? `mosquitto_sub${where} -v -t ${quote(filter)}` : null],
    [T.copy.subLive, plain ? withFilter("holdfast sub", filter, where.trim()) : null],
    [T.copy.state, stateCommand({ ...view, at: null, to: null, b: null }, folder)],
    [T.copy.density, withFilter("holdfast density", filter, `--since ${range.from} --buckets ${buckets}${zoneOption(view)} --data ${quote(folder)}`)],
    [T.copy.curlLive, asCurl("history/messages", { filter, zone, ...range, at: "latest", client, payload, direction: "older", limit: PAGE })],
    [T.copy.curlState, asCurl("history/state", { filter, zone, look_back_s: view.lookBack_s, retained: view.retained ? 1 : 0 })],
    [T.copy.curlDensity, asCurl("history/density", { filter, zone, ...range, buckets })],
    ...curlPlot(view, topics, range),
  ];
  return { entries: offered(all), left: all.filter(([, text]) => text === null).map(([label]) => label) };
}

/** @param {[string, string | null][]} all @returns {Entry[]} */
function offered(all) {
  return all.flatMap(([label, text]) => (text === null ? [] : [{ label, text }]));
}

/** @param {View} view @returns {[string, string][]} */
function curlCompare(view) {
  if (view.b === null || view.at === null) return [];
  const [a, b] = [Math.min(view.at, view.b), Math.max(view.at, view.b)];
  return [[T.copy.curlCompare, asCurl("history/compare", { filter: view.filter, zone: view.zone, a, b, look_back_s: view.lookBack_s })]];
}

/** @param {View} view @param {string[]} topics @param {import("../parts/api.js").Params} range @returns {[string, string][]} */
function curlPlot(view, topics, range) {
  return topics.length ? [[T.copy.curlPlot, asCurl("history/plot", { topic: topics, path: view.path, ...range, points: PLOT_POINTS })]] : [];
}

/** A filter that begins with a hyphen is no option. @param {string} command @param {string} filter @param {string} options */
function withFilter(command, filter, options) {
  const words = filter.startsWith("-") ? [command, options, "--", quote(filter)] : [command, quote(filter), options];
  return words.filter(Boolean).join(" ");
}

/** @param {View} view */
const zoneOption = (view) => (view.zone ? ` --zone=${quote(view.zone)}` : "");

/** The state at A, or what is different between A and B; without a moment, the state now. @param {View} view @param {string} folder */
function stateCommand(view, folder) {
  const at = view.at ?? view.to;
  const words = [];
  if (at !== null) words.push(`--at ${isoShort(view.b === null ? at : Math.max(at, view.b))}`);
  if (at !== null && view.b !== null) words.push(`--compare ${isoShort(Math.min(at, view.b))}`);
  else if (view.retained) words.push("--retained");
  words.push(`--look-back-s ${view.lookBack_s}${zoneOption(view)} --data ${quote(folder)}`);
  return withFilter("holdfast state", view.filter, words.join(" "));
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

/** @param {any} node */
function urlOf(node) {
  const { host, port } = brokerOf(node);
  return `mqtt://${host}${port === 1883 ? "" : `:${port}`}`;
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

/**
 * The messages of the range by the console's API, which knows zones, clients and payloads.
 * @param {Record<string, string>} params those that are empty are left out
 */
function pythonPages(params) {
  const given = Object.entries(params).filter(([, value]) => value !== "");
  return `import base64
import json
import os
import urllib.parse
import urllib.request

QUESTION = {
${given.map(([name, value]) => `    ${python(name)}: ${python(value)},`).join("\n")}
    "direction": "newer",
    "limit": "1000",
    "full": "1",
}


def plain(value):
    return value["text"].encode() if "text" in value else base64.b64decode(value["base64"])


cursor = {}
while cursor is not None:
    request = urllib.request.Request(
        ${python(`${location.origin}${ROOT}history/messages?`)} + urllib.parse.urlencode(QUESTION | cursor),
        headers={"Authorization": "Bearer " + os.environ["HOLDFAST_TOKEN"]},
    )
    with urllib.request.urlopen(request) as answer:
        page = json.load(answer)
    for message in page["messages"]:
        print(plain(message["topic"]).decode(), plain(message["payload"]))
    cursor = {"cursor": page["next_cursor"]} if page["next_cursor"] else None
`;
}

/** @param {View} view @param {string} from @param {string} to @param {string} folder */
function pyspark(view, from, to, folder) {
  const zone = view.zone ? `.option("zone", ${python(view.zone)})` : "";
  const client = view.client ? `messages = messages.where(messages.client_id == ${python(view.client)})\n` : "";
  const imports = view.payload ? "from pyspark.sql.functions import udf\n\nfrom holdfast.history.past.json_paths import payload_check\n" : "";
  const payload = view.payload ? `

@udf("boolean")
def has_payload(payload):
    return payload_check(${python(view.payload)})(bytes(payload))


messages = messages.where(has_payload(messages.payload))
` : "";
  return `${imports}from holdfast.pipeline import session

spark = session()
messages = spark.read.format("holdfast").option("topicFilter", ${python(view.filter)})${zone}
messages = messages.option("startingTime", ${python(from)}).option("endingTime", ${python(to)}).load(${python(folder)})
${client}${payload}# The first ${PAGE} of them; messages has all.
messages.orderBy("ts").show(${PAGE}, truncate=False)
`;
}

/**
 * A statement; null if SQL cannot say it.
 * @param {View} view
 * @param {any[]} zones
 */
function sqlOf(view, zones) {
  const conditions = [`offset >= ${view.from}`, `offset < ${view.to}`];
  conditions.unshift(/[+#]/.test(view.filter) ? `topic RLIKE ${sql(filterPattern(view.filter))}` : `topic = ${sql(view.filter)}`);
  if (view.zone) {
    // With what was loaded into it, which lies in lanes: zone~1.
    const own = zones.filter((one) => one.name === view.zone || one.name.startsWith(`${view.zone}~`));
    if (!own.length) return null;
    conditions.push(`shard IN (${[...new Set(own.flatMap((one) => one.shards))].join(", ")})`);
  }
  if (view.client) conditions.push(`client_id = ${sql(view.client)}`);
  if (view.payload && isCondition(view.payload)) return null;
  if (view.payload) conditions.push(`contains(payload, CAST(${sql(view.payload)} AS BINARY))`);
  return `SELECT ts, topic, client_id, qos, CAST(payload AS STRING) AS payload\nFROM history\nWHERE ${conditions.join("\n  AND ")}\nORDER BY ts DESC\nLIMIT ${PAGE}`;
}
