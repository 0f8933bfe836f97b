// MQTT.js under the command of a test: one JSON object per line in each direction.
// In: {number, client, act, ...}. Out: {number, error} as the answer, {client, note} for a message.
"use strict";
const fs = require("node:fs");
const readline = require("node:readline");
const mqtt = require(process.argv[2]);

const clients = new Map();
const say = (object) => process.stdout.write(JSON.stringify(object) + "\n");

function properties(note) {
  const found = {};
  if (note.content_type !== null) found.contentType = note.content_type;
  if (note.response_topic !== null) found.responseTopic = note.response_topic;
  if (note.correlation_data !== null) found.correlationData = Buffer.from(note.correlation_data, "base64");
  if (note.expiry_s !== null) found.messageExpiryInterval = note.expiry_s;
  for (const [name, value] of note.user_properties) {
    found.userProperties ??= {};
    const known = found.userProperties[name];
    found.userProperties[name] = known === undefined ? value : [].concat(known, value);
  }
  return found;
}

function published(note, v5) {
  const options = { qos: note.qos, retain: note.retain };
  if (v5) options.properties = properties(note);
  return options;
}

function note(topic, payload, packet) {
  const given = packet.properties ?? {};
  const pairs = Object.entries(given.userProperties ?? {}).flatMap(([name, value]) => [].concat(value).map((one) => [name, one]));
  return {
    topic,
    payload: payload.toString("base64"),
    qos: packet.qos,
    retain: packet.retain,
    content_type: given.contentType ?? null,
    response_topic: given.responseTopic ?? null,
    correlation_data: given.correlationData ? given.correlationData.toString("base64") : null,
    expiry_s: given.messageExpiryInterval ?? null,
    user_properties: pairs,
  };
}

const acts = {
  connect(name, order, done) {
    const v5 = order.version === 5;
    const options = {
      clientId: order.client_id,
      protocolVersion: order.version,
      protocolId: order.version === 3 ? "MQIsdp" : "MQTT",
      clean: v5 ? order.clean : order.clean && !order.keep,
      reconnectPeriod: 0,
      resubscribe: false,
    };
    if (order.authority) options.ca = fs.readFileSync(order.authority);
    if (v5 && order.keep) options.properties = { sessionExpiryInterval: 600 };
    if (order.will) {
      const will = published(order.will, v5);
      options.will = { ...will, topic: order.will.topic, payload: Buffer.from(order.will.payload, "base64") };
    }
    const client = mqtt.connect(order.url, options);
    client.v5 = v5;
    clients.set(name, client);
    client.on("message", (topic, payload, packet) => say({ client: name, note: note(topic, payload, packet) }));
    client.once("connect", () => done(null));
    client.on("error", (error) => done(error));
  },
  subscribe(name, order, done) {
    clients.get(name).subscribe(order.filter, { qos: order.qos }, (error) => done(error));
  },
  publish(name, order, done) {
    const client = clients.get(name);
    const payload = Buffer.from(order.note.payload, "base64");
    client.publish(order.note.topic, payload, published(order.note, client.v5), (error) => done(error));
  },
  disconnect(name, order, done) {
    clients.get(name).end(false, {}, () => done(null));
  },
  drop(name, order, done) {
    const client = clients.get(name);
    client.once("close", () => done(null));
    client.stream.destroy();
  },
};

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  const order = JSON.parse(line);
  let answered = false;
  acts[order.act](order.client, order, (error) => {
    if (!answered) say({ number: order.number, error: error ? String(error) : null });
    answered = true;
  });
}).on("close", () => process.exit(0));
