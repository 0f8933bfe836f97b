"""The words of the control socket.

    both sides        Hello                                       first, once
    client ─▶ broker  Request(id, word, body)
    broker ─▶ client  Answer(id, body) or Refusal(id, code, …)    one for each request, in any order
    broker ─▶ client  Push(topic, body)                           what the client watches

1. `Hello` names the versions that a side speaks and the words that it knows. Without a version in common the broker
   sends its own `Hello` and closes. A word that the broker does not know is refused as UNKNOWN_WORD and nothing else
   happens, so that an older broker and a newer console do what both know.
2. Fields may be added, with a default; none is renamed, removed or given another meaning. What needs that gets a new
   word. A field that is not known is passed over.
3. Times are wall clock times in µs since 1970 (`_us`), as everywhere in Holdfast.
"""

from typing import Final

import msgspec

VERSION: Final = 1
#: The oldest version that is understood.
OLDEST_VERSION: Final = 1

# Codes of a refusal: never change them.
UNKNOWN_WORD: Final = "unknown_word"
BAD_REQUEST: Final = "bad_request"
NOT_FOUND: Final = "not_found"
NOT_POSSIBLE: Final = "not_possible"
FAILED: Final = "failed"


class Hello(msgspec.Struct, tag="hello", frozen=True):
    """The first word of either side."""

    version: int
    oldest: int
    #: Name and version of the program, for people.
    product: str
    #: The requests that a broker answers; empty from a client.
    words: tuple[str, ...] = ()


class Request(msgspec.Struct, tag="request", frozen=True):
    """A question or a command. `id` is the client's choice, and comes back with the answer."""

    id: int
    word: str
    body: msgspec.Raw


class Answer(msgspec.Struct, tag="answer", frozen=True):
    id: int
    body: msgspec.Raw


class Refusal(msgspec.Struct, tag="refusal", frozen=True):
    """Nothing was done."""

    id: int
    #: One of the codes above.
    code: str
    #: What was wrong, and what would be right.
    detail: str


class Push(msgspec.Struct, tag="push", frozen=True):
    """News of what a client watches."""

    topic: str
    body: msgspec.Raw


Word = Hello | Request | Answer | Refusal | Push


class Nothing(msgspec.Struct, frozen=True):
    """The body of a request without arguments, and of an answer that says no more than "done"."""


# ---- node: what the broker is


class ListenerInfo(msgspec.Struct, frozen=True):
    name: str
    #: `tcp`, `tls`, `ws` or `wss`.
    kind: str
    host: str
    port: int
    connections: int
    #: What goes in front of the topics of its clients; empty for nothing.
    mount_point: str = ""
    #: Whether each connection begins with a PROXY header.
    proxy_protocol: bool = False


class NodeInfo(msgspec.Struct, frozen=True):
    """What the broker is, and whether it takes messages."""

    version: str
    compiled: bool
    pid: int
    started_us: int
    now_us: int
    #: `starting`, `taking`, `refusing` (no room on the disk) or `stopping`.
    state: str
    #: Why, if it does not take messages.
    detail: str
    durability: str
    #: Empty if nothing is stored on disk.
    data_folder: str
    listeners: tuple[ListenerInfo, ...]
    #: What the node knows of its cluster, by the names below `$SYS/broker/`, as JSON; empty without a cluster.
    cluster: str = ""


# ---- watch: have news pushed


class Watch(msgspec.Struct, frozen=True):
    """What to push from now on; False ends it."""

    stats: bool = False
    clients: bool = False


#: Topics of pushes, with their bodies: Stats, ClientRows, ClientChanges, Nothing.
STATS: Final = "stats"
CLIENTS: Final = "clients"
CLIENT_CHANGES: Final = "client_changes"
#: So much has changed that a new snapshot follows: forget all clients.
CLIENTS_AGAIN: Final = "clients_again"


class Histogram(msgspec.Struct, frozen=True):
    """How many values were at most each bound (`Metric.bounds`) and above the one before, since the start.

    Not cumulative: each value counts once. The last count is of values above the last bound.
    """

    counts: tuple[int, ...]
    sum: float


class Stats(msgspec.Struct, frozen=True):
    """The broker's numbers, by the names of `metrics.METRICS`, once a second."""

    at_us: int
    numbers: dict[str, float]
    #: By metric and by the value of its label.
    labelled: dict[str, dict[str, float]]
    histograms: dict[str, Histogram]
    #: `NodeInfo.state` and `detail`.
    state: str = ""
    detail: str = ""
    #: What is wrong with the block file; empty if nothing is.
    block_file_problem: str = ""
    #: What the last reload refused, with file and line; empty if nothing was.
    reload_problem: str = ""
    #: Histograms with a label, by metric and by its value.
    labelled_histograms: dict[str, dict[str, Histogram]] = {}


class ClientRow(msgspec.Struct, frozen=True):
    """A connection with its session, as a list of clients shows it."""

    #: The session's name: the client id, behind a mount point with that in front.
    session_id: str
    client_id: str
    user: str
    address: str
    port: int
    listener: str
    transport: str
    #: 3, 4 or 5: MQTT 3.1, 3.1.1, 5.0.
    version: int
    since_us: int
    keep_alive_s: int
    #: How long the session outlives the connection; 0: it does not, 4294967295: without end.
    expiry_s: int
    subscriptions: int
    inflight: int
    #: Whether messages wait in its queue.
    behind: bool
    #: At most so many messages wait.
    owed: int


class ClientRows(msgspec.Struct, frozen=True):
    """A part of the snapshot. Changes come behind the last part."""

    rows: tuple[ClientRow, ...]
    last: bool


class ClientChanges(msgspec.Struct, frozen=True):
    """Clients that came or changed, as they are now, and sessions whose connection is gone."""

    rows: tuple[ClientRow, ...]
    gone: tuple[str, ...]


# ---- client, subscriptions: what a list cannot show


class SessionRequest(msgspec.Struct, frozen=True):
    session_id: str


#: The earliest message there was, as a time.
EARLIEST_US: Final = 1


class SubscriptionInfo(msgspec.Struct, frozen=True):
    #: As the client wrote it, `$share/…` and `$replay/…` included.
    filter: str
    qos: int
    #: Empty, or the session that has it.
    session_id: str = ""
    #: Empty, or the group of a shared subscription.
    group: str = ""
    members: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0
    identifier: int = 0
    #: From when on it gets messages, about: when it was made, or where its replay began; EARLIEST_US for the earliest
    #: message there was. 0 if the broker does not say.
    since_us: int = 0
    #: How far its replay has come, if one is under way: messages up to this time are sent, EARLIEST_US for none yet. 0
    #: if there is none.
    replayed_us: int = 0


class InflightInfo(msgspec.Struct, frozen=True):
    packet_id: int
    qos: int
    #: `puback`, `pubrec` or `pubcomp`: what the broker waits for.
    waits_for: str
    topic: str


class ClientDetail(msgspec.Struct, frozen=True):
    """A session that this broker has in memory, with its connection if there is one."""

    session_id: str
    connection: ClientRow | None
    user: str
    expiry_s: int
    #: 0 while it is connected.
    disconnected_us: int
    subscriptions: tuple[SubscriptionInfo, ...]
    #: At most LISTED of each list; the numbers say how many there are.
    subscription_count: int
    inflight: tuple[InflightInfo, ...]
    inflight_count: int
    owed: int
    has_will: bool


#: Entries of a list in one answer.
LISTED: Final = 1000


class SubscriptionsRequest(msgspec.Struct, frozen=True):
    """Who gets a topic, or which subscriptions lie within a filter: one of the two."""

    topic: str = ""
    under: str = ""
    limit: int = LISTED
    #: Those behind this session and filter.
    after: tuple[str, str] | None = None


class Subscriptions(msgspec.Struct, frozen=True):
    items: tuple[SubscriptionInfo, ...]
    #: Whether there are more than are shown.
    more: bool
    #: Whether the broker knows `after`: then they come in the order of sessions and filters.
    in_order: bool = False


# ---- commands


class KickRequest(msgspec.Struct, frozen=True):
    session_id: str
    #: What an MQTT 5 client is told.
    reason: str = ""


class Kicked(msgspec.Struct, frozen=True):
    #: Where the connection came from.
    address: str


class Purged(msgspec.Struct, frozen=True):
    #: At most so many messages were taken out of the queue.
    messages: int


class ReloadedSetting(msgspec.Struct, frozen=True):
    key: str
    before: str
    now: str


class Reloaded(msgspec.Struct, frozen=True):
    #: In effect now, and in effect after a restart.
    changed: tuple[ReloadedSetting, ...]
    waiting: tuple[ReloadedSetting, ...]
    #: By part (`settings`, `access`, `blocks`, `certificates`): why it stays as it was.
    errors: dict[str, str]


# ---- blocks: who is not let in


class BlockInfo(msgspec.Struct, frozen=True):
    #: `client`, `user` or `address`.
    kind: str
    #: The name of a session, of a user, or an IP address or network.
    value: str
    #: 0: it does not end.
    until_us: int = 0
    #: Why; not told to the client.
    reason: str = ""
    #: Who blocked it.
    by: str = ""
    since_us: int = 0


class BlocksRequest(msgspec.Struct, frozen=True):
    #: Go on behind this block; None begins with the newest.
    after: BlockInfo | None = None


class BlockRows(msgspec.Struct, frozen=True):
    """A part of the blocks in force, the newest first: at most LISTED."""

    items: tuple[BlockInfo, ...]
    #: Whether there are more behind these.
    more: bool
    #: What is wrong with the block file, so that it is not in force; empty if nothing is.
    problem: str = ""
    #: Whether they outlive the broker.
    kept: bool = True


class BlockRequest(msgspec.Struct, frozen=True):
    """All of them are blocked, or none. A block takes the place of an older one of the same kind and value."""

    #: Kind and value of each. `block_batches` keeps requests short.
    targets: tuple[tuple[str, str], ...]
    #: 0: without end.
    until_us: int = 0
    reason: str = ""
    by: str = ""


class Blocked(msgspec.Struct, frozen=True):
    #: As they are kept: addresses in their shortest form, with the time.
    blocks: tuple[BlockInfo, ...]
    #: How many connections were ended.
    disconnected: int


class UnblockRequest(msgspec.Struct, frozen=True):
    #: Kind and value of each.
    targets: tuple[tuple[str, str], ...]


class Unblocked(msgspec.Struct, frozen=True):
    #: Those that were in force.
    blocks: tuple[BlockInfo, ...]


# ---- cluster: what a node knows of its cluster


class MemberInfo(msgspec.Struct, frozen=True):
    """A node that has joined. The fields are those of `holdfast cluster status --json`."""

    node: int
    name: str
    epoch: int
    #: `live`, `silent`, `fenced` or `left`.
    state: str
    #: Since its last beat; None without one.
    beat_age_s: float | None
    ready: bool
    #: Where it is furthest behind.
    lag_s: float
    connections: int
    #: By vnode.
    applied: dict[int, int]
    synced: dict[int, int]
    addresses: dict[str, str]
    lags_s: dict[int, float]
    leads: tuple[int, ...]
    #: Why it is not ready.
    reasons: tuple[str, ...]
    #: What it has counted since its start; `registry/…` are the paths of its channel registry.
    counts: dict[str, int]


class DigestInfo(msgspec.Struct, frozen=True):
    """How the tables of another node compare with those of this one."""

    vnode: int
    node: int
    #: Where they were compared last, in the log of the vnode.
    sequence: int
    equal: bool


class ClusterInfo(msgspec.Struct, frozen=True):
    """The cluster as one node knows it."""

    name: str
    cluster_id: str
    #: The node that answers, and its present life.
    node: int
    epoch: int
    #: How far its clock is ahead of the middle one of all members.
    clock_skew_s: float
    members: tuple[MemberInfo, ...]
    #: By vnode: the last sequence of its log that is known here, and the node that leads it; 0 if none does.
    last: dict[int, int]
    leaders: dict[int, int]
    digests: tuple[DigestInfo, ...]
    #: Why the cluster is not ready; empty if it is.
    problems: tuple[str, ...]


class TakeoversRequest(msgspec.Struct, frozen=True):
    #: All that is known of one session; without it, the last takeovers of all.
    session_id: str = ""


class TakeoverInfo(msgspec.Struct, frozen=True):
    """A connection that the channel registry has decided on. The fields are those of `holdfast sessions claims`."""

    session_id: str
    at_us: int
    node: int
    connection: int
    version: str
    accepted: bool
    revision: int
    #: The channel that it replaced, or that stood in its way; empty for none.
    other: str


class TakeoverRows(msgspec.Struct, frozen=True):
    #: The newest first.
    items: tuple[TakeoverInfo, ...]


class LogLevelRequest(msgspec.Struct, frozen=True):
    #: `debug`, `info`, `warning` or `error`.
    level: str


#: Every request, with the struct of its body and of its answer.
WORDS: Final[dict[str, tuple[type[msgspec.Struct], type[msgspec.Struct]]]] = {
    "node": (Nothing, NodeInfo),
    "stats": (Nothing, Stats),
    "watch": (Watch, Nothing),
    "client": (SessionRequest, ClientDetail),
    "subscriptions": (SubscriptionsRequest, Subscriptions),
    "kick": (KickRequest, Kicked),
    "end_session": (SessionRequest, Nothing),
    "purge_queue": (SessionRequest, Purged),
    "blocks": (BlocksRequest, BlockRows),
    "block": (BlockRequest, Blocked),
    "unblock": (UnblockRequest, Unblocked),
    "reload": (Nothing, Reloaded),
    "log_level": (LogLevelRequest, Nothing),
    "cluster": (Nothing, ClusterInfo),
    "takeovers": (TakeoversRequest, TakeoverRows),
}
