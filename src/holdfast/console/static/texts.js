/** Every text of the page that is more than a name of the field, in one place. English. */

/** @param {number | string} n @param {string} one @param {string} many */
const plural = (n, one, many) => `${n} ${String(n) === "1" ? one : many}`;

export const T = {
  product: "Holdfast",
  skip: "Skip to the page",
  nav: {
    label: "Pages", menu: "Menu", overview: "Overview", clients: "Clients", subscriptions: "Subscriptions", time: "Time machine",
    events: "Events", health: "Health", cluster: "Cluster",
  },
  bar: {
    search: "Find a client, topic or page",
    zone: "Times are shown in", utc: "UTC", local: "local",
    theme: { system: "Theme: as the system", light: "Theme: light", dark: "Theme: dark" },
    logout: "Log out",
    /** @param {number} n */
    alarms: (n) => (n === 0 ? "No alarms" : plural(n, "alarm", "alarms")),
    /** @param {string} name @param {string} role */
    who: (name, role) => `${name}, ${role}`,
  },
  state: {
    taking: "Taking messages", starting: "Starting", refusing: "Refusing messages", stopping: "Stopping", away: "Broker is away",
    unknown: "No numbers yet", silent: "The broker is silent", lost: "No connection to the console",
    /** @param {string} age */
    old: (age) => `Silent for ${age}`,
    /** @param {string} age */
    oldLong: (age) => `The broker has not reported for ${age}. Everything below is the last that is known, from then.`,
    lostLong: "The console does not answer. Everything below is the last that is known. Trying again.",
    awayLong: "The broker does not run or does not answer. Numbers are the last that are known; the past can still be looked at.",
    /** @param {string} age */
    ageTag: (age) => `${age} old`,
  },
  problem: {
    noConsole: "No answer.", forbidden: "Not allowed.", busy: "Not available now.", refused: "Refused.", again: "Try again",
    broken: "This part of the page failed.", notFoundTitle: "No such page",
    notFound: "There is no page at this address.",
  },
  table: {
    empty: "Nothing to show.", loading: "Loading …",
    /** @param {string} n @param {boolean} exact */
    rows: (n, exact) => `${exact ? "" : "at least "}${plural(n, "row", "rows")}`,
    /** @param {string} time */
    asOf: (time) => `as of ${time}`,
  },
  chart: {
    time: "time", showTable: "Table", hideTable: "Hide table", noValue: "no value",
    /** @param {number} n */
    gaps: (n) => plural(n, "gap", "gaps"), gapsTitle: "hatched: the broker did not report",
    range: "Range", hour: "1 h", day: "24 h", week: "7 d",
  },
  copy: {
    label: "Copy as", address: "Address", curl: "curl", command: "Command",
    /** @param {string} what */
    done: (what) => `${what} copied`,
    mosquitto: "mosquitto_sub, from the beginning of the range", sub: "holdfast sub", replay: "holdfast replay", export: "holdfast export",
    mosquittoLive: "mosquitto_sub, from now on", subLive: "holdfast sub, from now on", curlLive: "curl, the newest messages",
    state: "holdfast state", density: "holdfast density", curlExport: "curl, the range as a file", curlState: "curl, state", curlCompare: "curl, A against B", curlDensity: "curl, density", curlPlot: "curl, plot",
    python: "Python", pyspark: "PySpark", sql: "SQL (holdfast spark sql)",
    zone: "a zone", client: "a client", payload: "this search in payloads",
    /** @param {string[]} entries @param {string[]} narrowed */
    left: (entries, narrowed) => `Left out, as not narrowed by ${narrowed.join(" and ")}: ${entries.join("; ")}.`,
    filterAlone: "State, comparison and density are of the topic filter and the zone, like those of the page: neither client nor payload narrows them.",
  },
  stateAt: {
    /** @param {string} moment */
    silentSince: (moment) => `silent since ${moment}`,
    /** @param {string} span */
    silentFor: (span) => `silent for ${span} or more`,
    /** @param {string} span */
    nothing: (span) => `nothing came within ${span} before the later moment.`,
  },
  dialog: { cancel: "Cancel", busy: "Working …", typeAgain: "Type it once more to go on" },
  search: {
    /** @param {number} n */
    hits: (n) => (n === 0 ? "Nothing found" : plural(n, "hit", "hits")),
    page: "page", client: "client", topic: "topic", filter: "time machine", who: "who gets it",
  },
  overview: {
    title: "Overview", in: "Messages in", out: "Messages out", clients: "Clients", behind: "Behind", commit: "Commit p99", lag: "Loop lag p99", drops: "Drops",
    perSecond: "/s",
    /** @param {string} p50 */
    commitSub: (p50) => `p50 ${p50}`,
    /** @param {string} change */
    clientsSub: (change) => `${change} in 30 s`,
    /** @param {string} n */
    offline: (n) => `${n} offline`,
    behindSub: "slowest first",
    lagSub: "last 30 s",
    dropsSub: "since start",
    /** @param {string} uptime */
    up: (uptime) => `up ${uptime}`,
    compiled: "compiled", interpreted: "interpreted",
    rates: "Messages per second", connections: "Connections", dropsChart: "Drops per second", behindChart: "Clients behind", disk: "Free disk",
    received: "in", sent: "out",
    dropsTitle: "Drops by reason",
    /** @param {string} range */
    dropsNone: (range) => `Nothing was dropped in the last ${range}, nor since the broker started.`, about: "about ",
    /** @param {string} n @param {string} range */
    dropsRange: (n, range) => `${n} in the last ${range}`,
    /** @param {string} n */
    dropsSince: (n) => `${n} since start`,
    /** @param {string} n */
    dropsAll: (n) => `${n} since the broker started.`,
    dropsMore: "The events name fewer: those of the last seconds are still to come, and of a flood the oldest are not kept.", dropsUnknown: "The events of the range cannot be read now.",
    seriesCurl: "curl, the charts",
    storage: "Storage", used: "used", free: "free",
    /** @param {string} days @param {string} span */
    fullIn: (days, span) => `full in ${days} at the pace of the last ${span}`,
    /** @param {string} span */
    notFilling: (span) => `not filling at the pace of the last ${span}`,
    fullUnknown: "not known yet when it is full",
    oldest: "oldest message",
    messages: "messages", bytes: "bytes", zone: "zone", generations: "generations",
    alarms: "Alarms", noAlarms: "No alarm is active.",
    /** @param {string} age */
    since: (age) => `for ${age}`,
    certificate: "certificate", listeners: "Listeners", listener: "listener", address: "address", noPast: "This broker keeps its messages in memory: there is no past to look at.",
  },
  clients: {
    title: "Clients", search: "Client, user or address", state: "State", all: "All", connected: "Connected", offline: "Offline", behind: "Behind", refused: "Refused", blocked: "Blocked",
    client: "client", user: "user", address: "address", listener: "listener", since: "since", inflight: "in flight", owed: "owed", subscriptions: "subs", version: "MQTT",
    empty: "No client matches.", label: "Clients",
    /** @param {string} matched @param {string} total */
    count: (matched, total) => (matched === total ? total : `${matched} of ${total}`),
    bound: "≤ is a bound by serials; the client's queue has the exact number.",
    isOffline: "offline", incomplete: "the list is still being filled",
    listenerField: "Listener", userField: "User",
    noOffline: "No command lists sessions that are offline; curl does.", noOrder: "No command lists them in this order; curl does.",
    connectedAlone: "The command lists clients that are connected, and no offline sessions.",
  },
  client: {
    connected: "Connected", offline: "Offline", behind: "behind",
    /** @param {string} id */
    notFound: (id) => `No session has the name ${id}. It may have ended, or it never was here.`,
    kick: "Disconnect", end: "End session", purge: "Empty queue", block: "Block", unblock: "Unblock",
    tabs: { session: "Session", queue: "Queue", inflight: "In flight", subscriptions: "Subscriptions", events: "Events", explain: "Explain" },
    facts: {
      address: "Address", listener: "Listener", protocol: "Protocol", user: "User", since: "Connected since", keepAlive: "Keep alive", expiry: "Session expiry",
      disconnected: "Disconnected", subscriptions: "Subscriptions", inflight: "In flight", owed: "Owed", will: "Will", clientId: "Client id", block: "Blocked",
    },
    expiryNever: "never ends", expiryNow: "ends with the connection", yes: "yes", no: "no",
    kickTitle: "Disconnect 1 client?",
    /** @param {string} address */
    kickEffects: (address) => [
      `The connection from ${address} is closed; an MQTT 5 client is told why.`,
      "Its session, queue and subscriptions stay. It may connect again at once.",
    ],
    endTitle: "End 1 session?",
    /** @param {string} subscriptions @param {string} owed */
    endEffects: (subscriptions, owed) => [
      `${subscriptions} and a queue of at most ${owed} are removed.`,
      "A connection of it is closed. Its will is published, if it has one.",
      "This cannot be undone. The messages stay in the history.",
    ],
    /** @param {string} n */
    purgeTitle: (n) => `Take at most ${n} out of 1 queue?`,
    purgeEffects: ["The client will not get these messages.", "Its session and its subscriptions stay, and it gets what comes from now on.", "This cannot be undone. The messages stay in the history."],
    /** @param {string} address */
    kicked: (address) => `Disconnected (${address}).`,
    ended: "The session has ended.",
    /** @param {string} n */
    purged: (n) => `${n} taken out of the queue.`,
    queueEmpty: "Nothing waits for this client.", inflightEmpty: "Nothing is in flight.", subscriptionsEmpty: "It has no subscriptions.", eventsEmpty: "No events in this time.",
    received: "received", topic: "topic", qos: "QoS", place: "place", payload: "payload", bytes: "bytes", packet: "packet", waitsFor: "waits for",
    filter: "filter", options: "options",
    queueExact: "exact", queueMore: "Show more", queueBound: "at most, by serials",
    readerNeeded: "The role reader is needed to see messages.",
    noPast: "This broker keeps no past.", published: "What it published, in the time machine", takeovers: "Its last connections, in the cluster",
    explainFilter: "Topic filter", explainSince: "Since", explainAsk: "Explain",
    explainIntro: "What became of the messages that this client should have got, and why.",
    explainNone: "No message of this filter in this time.",
    queueCurl: "curl, of the queue", eventsCurl: "curl, of the events", eventsCommand: "Command, of the events",
    newest: (/** @type {string} */ shown, /** @type {string} */ all) => `the newest ${shown} of ${all}`,
    shown: (/** @type {string} */ shown, /** @type {string} */ all) => `the first ${shown} of ${all}`,
  },
  selection: {
    label: "Selected clients", clear: "Clear selection", close: "Close",
    /** @param {string} n */
    count: (n) => `${n} selected`,
    /** @param {string} n */
    all: (n) => `Select the ${plural(n, "client", "clients")} loaded`,
    /** @param {string} id */
    one: (id) => `Select ${id}`,
    /** @param {string} n */
    more: (n) => `and ${n} more`,
    /** @param {string} n */
    offline: (n) => `${n} of the selection ${n === "1" ? "is" : "are"} offline, and not met.`,
    /** @param {string} n */
    missing: (n) => `${n} had gone meanwhile.`,
    kick: {
      action: "Disconnect", danger: false,
      /** @param {string} text */
      title: (text) => `Disconnect ${plural(text, "client", "clients")}?`,
      effects: ["Their connections are closed; MQTT 5 clients are told why.", "Their sessions, queues and subscriptions stay. They may connect again at once."],
      /** @param {string} text */
      done: (text) => `${plural(text, "client was", "clients were")} disconnected.`,
    },
    block: {
      action: "Block", danger: false,
      /** @param {string} text */
      title: (text) => `Block ${plural(text, "client", "clients")}?`,
      effects: ["They are refused from now on, and their connections are closed.", "Their sessions, queues and subscriptions stay until they expire."],
      /** @param {string} text */
      done: (text) => `${plural(text, "client is", "clients are")} blocked.`,
    },
    end: {
      action: "End sessions", danger: true,
      /** @param {string} text */
      title: (text) => `End ${plural(text, "session", "sessions")}?`,
      effects: ["Their subscriptions and queues are removed, and their connections closed. Wills are published.", "This cannot be undone. The messages stay in the history."],
      /** @param {string} text */
      done: (text) => `${plural(text, "session has", "sessions have")} ended.`,
    },
  },
  blocks: {
    label: "Blocks", tag: "blocked", blocked: "blocked", until: "until", reason: "reason", by: "by", since: "since", none: "Nobody is blocked.",
    noEnd: "without end", add: "Block …", action: "Block", unblock: "Unblock", kind: "What", value: "Name or address",
    kinds: { client: "client", user: "user", address: "address" },
    duration: "For", durations: { 3600: "1 hour", 86400: "1 day", 604800: "7 days", 0: "without end" },
    reasonField: "Reason, for this list; the client is not told",
    hint: "A blocked client is refused as banned (0x8A in MQTT 5, 5 in MQTT 3).",
    memory: "This broker keeps nothing on disk: its blocks end with it.",
    wrong: "The block file is wrong. What was in force before stays, and nothing can be changed until the file is mended and reloaded.",
    addTitle: "Block a client, a user or an address?",
    addEffects: ["Who is meant is refused from now on, and its connections are closed.", "Sessions stay, and their messages wait until they expire."],
    oneTitle: "Block 1 client?",
    oneEffects: ["It is refused from now on, and its connection is closed.", "Its session, queue and subscriptions stay until they expire."],
    /** @param {string} text */
    done: (text) => `Blocked; ${plural(text, "connection was", "connections were")} closed.`,
    unblockTitle: "Remove 1 block?",
    /** @param {string} kind @param {string} value */
    unblockEffects: (kind, value) => [kind === "client" ? "The client may connect again." : `All clients of the ${kind} ${value} may connect again.`],
    unblocked: "The block was removed.",
    /** @param {string} kind */
    byWhat: (kind) => ({ client: "by its client id", user: "by its user", address: "by its address" })[kind] ?? kind,
  },
  play: {
    title: "Play again", intro: "Publishes the messages of the range once more, as a job of the console.", jobs: "Jobs",
    prefix: "Into topics below", speed: "Speed", user: "As user", password: "Password", nobody: "no user",
    same: "into the topics themselves", sameShort: "the topics themselves", playSame: "Play into the topics …",
    /** @param {string} prefix */
    play: (prefix) => `Play into ${prefix}…`,
    action: "Play", stop: "Stop", stopCurl: "curl, to stop it", stopCommand: "Command, to stop it", resume: "Resume", progress: "Progress",
    /** @param {string} many @param {string} prefix */
    askTitle: (many, prefix) => `${many}: play into ${prefix}…?`,
    /** @param {string} many */
    sameTitle: (many) => `${many}: play into the topics themselves?`,
    /** @param {string} prefix */
    effects: (prefix) => [
      `Each message is published again, with ${prefix} in front of its topic. It is not retained, and its property ts says when the original came.`,
      "Whoever subscribes there gets it, and it is stored like any other message.",
    ],
    sameEffects: [
      "Every subscriber of these topics gets these messages again, as if they happened now.",
      "They are stored once more, are not retained, and cannot be called back.",
    ],
    /** @param {string} speed */
    pace: (speed) => (speed === "max" ? "As fast as the broker takes them." : speed === "1" ? "At the speed of the original." : `At ${speed} times the speed of the original.`),
    zone: "zone", client: "client", payload: "search in payloads",
    /** @param {string} what */
    notNarrowed: (what) => `The ${what} above does not narrow it: the filter alone does.`,
    /** @param {string} done */
    resumeTitle: (done) => `Resume behind ${plural(done, "message", "messages")}?`,
    ago: "ago",
    resumeEffects: ["It goes on behind the last message that was acknowledged: none is left out, none comes twice."],
    /** @param {string} user */
    passwordOf: (user) => `Password of ${user}`,
    states: { running: "Playing", done: "Done", stopped: "Stopped", failed: "Failed" },
    /** @param {number} n @param {string} text */
    messages: (n, text) => `${text} ${n === 1 ? "message" : "messages"}`,
    /** @param {string} speed */
    speedText: (speed) => (speed === "max" ? "as fast as possible" : `${speed}×`),
    /** @param {string} moment */
    at: (moment) => `at ${moment}`,
    /** @param {string} name */
    by: (name) => `by ${name},`,
    /** @param {number} n */
    all: (n) => `All ${n} jobs`,
  },
  subscriptions: {
    title: "Subscriptions", topic: "Who gets the topic", under: "or who subscribes within", ask: "Show",
    filter: "filter", who: "client or group", qos: "QoS", since: "since", earliest: "earliest", replay: "replayed to", members: "members", options: "options", group: "group", empty: "No subscription matches.",
    intro: "Enter a topic to see who gets its messages, or a filter to see which subscriptions lie within it.",
    more: "There are more than are shown: a narrower filter shows the others.",
    matcher: "Found by the broker's own matcher, so this is who gets the next message.",
  },
  events: {
    title: "Events", reason: "Reason", allReasons: "all reasons", client: "Client, whole id", topic: "Topic filter", since: "Since", empty: "No events match.", emptyClient: "No events match. A client is found by its whole id alone, and not by a part of it.",
    at: "time", reasonColumn: "reason", clientColumn: "client", topicColumn: "topic", count: "count", detail: "detail", go: "go to",
    explain: "explain", moment: "moment",
    merged: "and others in this second",
    /** @param {string} n */
    total: (n) => plural(n, "event", "events"),
    counts: "Events by reason", until: "Until", now: "now",
    strip: "Events over time", tableCaption: "Numbers of events", stripHint: "drag to choose a range", asTable: "As a table", hideTable: "Hide the table", whole: "Last 24 h",
    begin: "Beginning of the range", end: "End of the range", what: "events",
    label: "Events",
  },
  health: {
    title: "Health", now: "Active now", past: "Ended", none: "No alarm is active.", nonePast: "No alarm has ended in the time that is kept.", runbook: "Runbook", runbookIntro: "What to do when something is wrong.", runbookParts: "Parts of the runbook", mute: "Mute 1 h", muted: "muted until",
    /** @param {string} name */
    muteTitle: (name) => `Mute the alarm ${name} for 1 hour?`,
    muteEffects: ["It stays on this page and in the metrics.", "It does not ring the bell, until the hour is over or it ends and comes again."],
    muteAction: "Mute", alarm: "alarm", since: "since", until: "until", lasted: "lasted", detail: "detail",
    pipelines: "Pipelines", pipelinesIntro: "Retention waits for their leases.", pipelinesNone: "No pipeline has a lease.", report: "Report by Spark",
    leasesCurl: "curl, with the places in each shard", leasesRemove: "Command, to give up a lease", lease: "lease", state: "state", behind: "behind", renewed: "renewed",
    follows: "follows the log", broken: "broken by retention",
    /** @param {string} age */
    ago: (age) => `${age} ago`,
    audit: "Audit", auditCurl: "curl, of the audit", auditCommand: "Command, of the audit", auditIntro: "Who changed what, newest first.", auditEmpty: "Nothing was changed.", auditRole: "The role admin is needed to see the audit.",
    time: "time", who: "who", from: "from", what: "what", target: "target", outcome: "outcome", underWay: "not known: the console ended meanwhile",
  },
  login: {
    title: "Log in to Holdfast", name: "Name", password: "Password", submit: "Log in", busy: "Logging in …",
    link: "Logging in with the one-time link …", linkFailed: "This link has been used already, or it has ended. Print a new one:",
    hint: "There is no default password. The first start prints a link that logs in once, on this machine only. For a new one:",
    command: "holdfast console open",
    missing: "Enter a name and a password.",
  },
  cluster: {
    title: "Cluster", none: "This node is not part of a cluster.", ready: "Ready", notReady: "Not ready",
    /** @param {string} name @param {string} id @param {number} node @param {number} epoch */
    headline: (name, id, node, epoch) => [`cluster ${name}`, `id ${id}`, `seen by node ${node}, epoch ${epoch}`],
    /** @param {string} skew */
    clockAhead: (skew) => `clock ${skew} ahead of the middle one`,
    /** @param {string} skew */
    clockBehind: (skew) => `clock ${skew} behind the middle one`,
    nodes: "Nodes", node: "node", name: "name", state: "state", epoch: "epoch", beat: "last beat", lag: "lag", connections: "connections", leads: "leads", addresses: "addresses",
    here: "this node", isReady: "ready", isNotReady: "not ready",
    states: { live: "live", silent: "silent", fenced: "fenced", left: "left" },
    /** @param {string} age */
    ago: (age) => `${age} ago`,
    /** @param {string} n */
    leadsCount: (n) => plural(n, "vnode", "vnodes"),
    vnodes: "Vnodes", vnode: "vnode", leader: "leader", last: "last", noLeader: "none",
    vnodesIntro: "How far each node has applied the log of each vnode, and whether its tables are equal to those of this node.",
    /** @param {number} node */
    nodeColumn: (node) => `node ${node}`,
    /** @param {string} lag */
    behind: (lag) => `${lag} behind`,
    /** @param {string} n */
    equal: (n) => `equal at ${n}`,
    /** @param {string} n */
    differs: (n) => `differs at ${n}`,
    registry: "Channel registry", registryIntro: "How connects ended, since each node started.", path: "path", meaning: "what happened",
    counts: "Records", countsIntro: "What each node has counted since its start.", count: "count",
    paths: {
      happy_ending: "registered at the first try", happy_fail: "the node knew of a newer connection: refused", expensive_fail: "the log knew of a newer one: refused",
      most_expensive: "another connection came in between", odd: "the log had an older connection than the node knew", unsettled: "the log did not answer in time",
      "begin/begun": "begins that this node asked for", "begin/gone": "the old channel was gone", "begin/no_answer": "the other node did not answer",
      "begin/served": "begins that others asked for", "begin/served_gone": "the channel that they asked for was gone", "begin/broken": "a request that cannot be read",
    },
    takeovers: "Takeovers", takeoversIntro: "Connections that replaced one that was still there, and connections that were refused. Of a client: each of its last connections.",
    client: "Client", at: "time", connection: "connection", outcome: "outcome", noTakeovers: "None is known since this node started.",
    registered: "registered", refused: "refused",
    /** @param {string} other */
    inPlaceOf: (other) => `registered, in place of ${other}`,
    /** @param {string} other */
    becauseOf: (other) => `refused, because of ${other}`,
  },
};
