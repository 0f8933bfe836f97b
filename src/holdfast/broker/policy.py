"""Settings that the broker itself keeps to: the sections `mqtt`, `limits`, `sessions` and `registry`.

`node.settings` composes them into the whole tree, and reads files and environment for them; nothing is read here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Annotated, Final, Literal

from holdfast.durable.queues.queue_store import QueueLimits
from holdfast.durable.takeover.registry import PATIENCE_S
from holdfast.model.protocol import MAX_U16, MAX_U32
from holdfast.wire.framing import MAX_PACKET_BYTES

#: The queue that is no queue: messages lie in the log.
LOG: Final = "log"
QueueBackendName = Literal["log", "journal", "redis", "postgres"]
OnFull = Literal["drop_oldest", "refuse"]
OnQueueAway = Literal["wait", "refuse"]
SessionOwner = Literal["user", "any"]
OwnerRefusal = Literal["not_authorized", "client_id_not_valid"]
#: Sessions belong to no user.
OWNER_ANY: Final = "any"
RegistryMode = Literal["linear", "both", "eventual"]
ShareStrategy = Literal["least_inflight", "round_robin", "hash", "sticky"]


@dataclass(frozen=True)
class Key:
    """What a key means, and for a number the smallest and the largest that is accepted."""

    meaning: str
    minimum: float | None = None
    maximum: float | None = None
    #: Whether a change holds without a restart: at once, or for clients that connect from then on.
    live: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, kw_only=True)
class Mqtt:
    """What the protocol leaves to the server."""

    # Memory decides: a connection may hold one unfinished packet, for as long as its deadline allows. Pictures and
    # firmware blocks have a megabyte or two; messages from devices have kilobytes at most.
    # Not live: connections have it from their first byte, before their CONNACK states it.
    max_packet_size: Annotated[
        int,
        Key(
            "Largest packet accepted, in bytes, its header included. MQTT's own bound is 256 MiB.",
            128,
            MAX_PACKET_BYTES,
        ),
    ] = 2_097_152
    # Messages that wait for one commit: enough to keep a pipelining publisher busy during a sync.
    receive_maximum: Annotated[
        int, Key("QoS 1 and 2 messages that a client may have sent without an acknowledgement.", 1, MAX_U16, live=True)
    ] = 1000
    max_inflight: Annotated[
        int,
        Key(
            "QoS 1 and 2 messages sent to a client without its acknowledgement; its own bound may be lower.",
            1,
            MAX_U16,
            live=True,
        ),
    ] = 1000
    max_qos: Annotated[int, Key("Highest QoS a client may publish with, and is granted.", 0, 2)] = 2
    retain_available: Annotated[bool, Key("Whether clients may publish retained messages.")] = True
    server_keepalive: Annotated[
        int,
        Key(
            "Keep alive in seconds that MQTT 5 clients are told to use; 0 leaves the choice to them.",
            0,
            MAX_U16,
            live=True,
        ),
    ] = 0
    max_keepalive: Annotated[
        int,
        Key(
            "Longest keep alive in seconds. An MQTT 5 client that asks for more, or for none, is told this one; an "
            "MQTT 3 client cannot be told and is refused. 0 for no bound.",
            0,
            MAX_U16,
            live=True,
        ),
    ] = 0
    topic_alias_maximum: Annotated[
        int, Key("Topic aliases a client may set on one connection; 0 switches them off.", 0, MAX_U16, live=True)
    ] = 32
    allow_zero_length_client_id: Annotated[
        bool, Key("Whether a client may leave its id empty and is given one.", live=True)
    ] = True
    max_topic_levels: Annotated[int, Key("Levels of a topic or filter.", 1, 32768)] = 200
    wildcards_available: Annotated[bool, Key("Whether filters may contain `+` and `#`.", live=True)] = True
    shared_available: Annotated[bool, Key("Whether clients may subscribe to `$share/<group>/<filter>`.", live=True)] = (
        True
    )
    max_session_expiry_s: Annotated[
        int,
        Key(
            "Longest time in seconds that a session outlives its connection; 4294967295 for ever. "
            "Sessions of MQTT 3 clients that ask to be kept get it.",
            0,
            MAX_U32,
            live=True,
        ),
    ] = MAX_U32
    upgrade_outgoing_qos: Annotated[
        bool, Key("Deliver with the QoS of the subscription, even if the message was published with a lower one.")
    ] = False
    check_payload_format: Annotated[
        bool, Key("Refuse messages that claim to be UTF-8 text and are not. Costs a pass over such payloads.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a client may cost."""

    max_connections: Annotated[
        int, Key("Connections at one time, over all listeners; 0 for no bound.", 0, live=True)
    ] = 10_000
    connect_timeout_s: Annotated[
        float,
        Key("Seconds from the connection to a complete CONNECT, TLS and WebSocket handshakes included.", 0.01, 3600),
    ] = 10.0
    # A slow modem brings 16 KiB in well below half a minute; a client that is slower than that only holds memory.
    packet_timeout_s: Annotated[
        float,
        Key(
            "Seconds in which a packet that has begun has to be complete. A larger one goes on as long as each time "
            "brings 16 KiB of it. 0 for no bound.",
            0,
            86400,
            live=True,
        ),
    ] = 30.0
    connect_rate: Annotated[int, Key("Connections per second from one address; 0 for no bound.", 0, live=True)] = 0
    # A person mistypes a password a few times. Devices repeat the same one, which counts once.
    login_failures: Annotated[
        int,
        Key(
            "Wrong passwords for one user name from one address after which further ones are held back, with 0x9F; ten "
            "times as many for all names together. A password that was right lately is not held back. 0 for no bound.",
            0,
            live=True,
        ),
    ] = 5
    login_backoff_s: Annotated[
        int, Key("Longest time in seconds that they are held back; it begins with 1 and doubles.", 1, 3600, live=True)
    ] = 10
    login_cache_s: Annotated[
        int,
        Key(
            "Seconds for which a checked password need not be checked again, unless the password file was read again "
            "meanwhile; it is kept in memory, as a hash with a secret key. 0 checks every time.",
            0,
            86400,
            live=True,
        ),
    ] = 300
    max_subscriptions: Annotated[int, Key("Subscriptions of one session; 0 for no bound.", 0, live=True)] = 100_000
    # A group costs a look with each acknowledgement of a member, a replay open files: fewer of them than of others.
    max_shared_subscriptions: Annotated[
        int, Key("Those of them that are shared (`$share`); 0 for no separate bound.", 0, live=True)
    ] = 1000
    max_replays: Annotated[int, Key("Replays under way in one session; 0 for no bound.", 0, live=True)] = 1000
    # Any client that may connect can leave sessions and retained messages behind, under ever new names. A session
    # without subscriptions takes 3 KB in memory, a small retained message 1.5 KB: a million of both is more than most
    # fleets have, and fits a machine of 8 GB.
    max_sessions: Annotated[
        int,
        Key(
            "Sessions at one time, with and without a connection; a client without one is refused beyond it. "
            "0 for no bound.",
            0,
            live=True,
        ),
    ] = 1_000_000
    max_retained: Annotated[
        int,
        Key(
            "Topics with a retained message; a message that would make it more is refused, one that replaces another "
            "is not. 0 for no bound.",
            0,
            live=True,
        ),
    ] = 1_000_000
    publish_rate: Annotated[
        int,
        Key("Messages per second from one connection; a faster client is slowed down. 0 for no bound.", 0, live=True),
    ] = 0
    # Less than the 90 s after which systemd sends SIGKILL, and the 10 s and more of container runtimes.
    stop_timeout_s: Annotated[
        float,
        Key(
            "Seconds from SIGTERM or SIGINT to the end of the process at the latest, also if clients do not take their "
            "last bytes or the disk hangs. A second signal ends it at once. What was acknowledged stays stored.",
            0.1,
            3600,
            live=True,
        ),
    ] = 10.0


@dataclass(frozen=True, kw_only=True)
class Sessions:
    """What a session may keep, and how groups share."""

    owner: Annotated[
        SessionOwner,
        Key(
            "To whom a session belongs. `user`: to the user that began it; a client of another user, or without one, "
            "is refused while the client id has a session. `any`: to whichever client has its client id.",
            live=True,
        ),
    ] = "user"
    owner_refusal: Annotated[
        OwnerRefusal,
        Key(
            "How a client is refused whose client id has a session of another user. `not_authorized`: 0x87, in MQTT 3 "
            "return code 5. `client_id_not_valid`: 0x85, in MQTT 3 return code 2.",
            live=True,
        ),
    ] = "not_authorized"
    queue: Annotated[
        QueueBackendName,
        Key(
            "Where messages wait for clients whose session outlives their connection, unless a class says otherwise. "
            "`log`: in the log; each session knows its position there. Else each client has an external queue, in "
            "files, Redis or PostgreSQL. A session keeps the queue that it began with."
        ),
    ] = "log"
    queue_ttl_s: Annotated[
        int, Key("Seconds that an external queue keeps messages that have no expiry; 0 for ever.", 0)
    ] = 0
    on_full: Annotated[
        OnFull,
        Key(
            "What an external queue does when it is full. `drop_oldest`: the oldest messages go. `refuse`: it "
            "takes nothing more until it has been read to its end."
        ),
    ] = "drop_oldest"
    on_queue_away: Annotated[
        OnQueueAway,
        Key(
            "What becomes of QoS 1 and 2 messages for a client whose queue cannot be reached. `wait`: they are "
            "acknowledged when it can. `refuse`: MQTT 5 clients are told 0x97, others are disconnected."
        ),
    ] = "wait"
    max_queued_messages: Annotated[
        int, Key("Messages owed to one client, beyond those in flight; what does not fit is dropped and counted.", 1)
    ] = 10_000
    max_queued_bytes: Annotated[int, Key("Their bytes, likewise.", 1024)] = 67_108_864
    max_inflight_bytes: Annotated[
        int,
        Key("Bytes sent to one client without its acknowledgement; one message is always allowed.", 1024, live=True),
    ] = 16_777_216
    backlog_rate: Annotated[
        int,
        Key(
            "Messages per second that a client which is back gets of what it missed; live messages follow behind, in "
            "order. 0 for as fast as it takes them.",
            0,
            live=True,
        ),
    ] = 0
    share_strategy: Annotated[
        ShareStrategy,
        Key(
            "Which member of a group gets a message: the one with the fewest in flight, each in turn, "
            "one chosen by the publisher's client id, or the same one for as long as it can take it."
        ),
    ] = "least_inflight"


@dataclass(frozen=True, kw_only=True)
class RegistrySettings:
    """Which connection of a client id counts, anywhere in the cluster."""

    mode: Annotated[
        RegistryMode,
        Key(
            "In a cluster. `linear`: the newest connection stays, decided by the ordered log. `eventual`: the last one "
            "in the log stays; nodes tell each other of their channels, which may lag, and a lock stands around each "
            "takeover. `both`: as `linear`, and what `eventual` nodes read is written as well: for changing from one "
            "to the other node by node."
        ),
    ] = "linear"
    patience_s: Annotated[
        float,
        Key(
            "Seconds that CONNECT may wait in a cluster until it is decided which connection of its client id counts. "
            "Then it is refused with 0x88 (MQTT 3: 3).",
            0.1,
        ),
    ] = PATIENCE_S
    version_property: Annotated[
        str,
        Key(
            "The name of a user property of CONNECT with the time at which the client connected, in ms since 1970. Of "
            "two connections with one client id the one with the later time counts as newer, in place of the time at "
            "which its transport connected. Empty: no property is looked at."
        ),
    ] = ""


@dataclass(frozen=True, kw_only=True)
class ClientClass:
    """Clients whose messages wait elsewhere than `sessions.queue` says. The first class that matches counts."""

    clients: Annotated[
        str, Key("Their client ids: `*` stands for any text, `?` for one character, `[ab]` for one of these.")
    ] = ""
    queue: Annotated[QueueBackendName, Key("As `sessions.queue`.")] = "log"
    max_queued_messages: Annotated[int | None, Key("As in `sessions`, which rules if this is not set.", 0)] = None
    max_queued_bytes: Annotated[int | None, Key("Likewise.", 0)] = None
    queue_ttl_s: Annotated[int | None, Key("Likewise.", 0)] = None
    on_full: Annotated[OnFull | None, Key("Likewise.")] = None


@dataclass(kw_only=True)
class Policy:
    """These sections together.

    Parts of the broker hold the policy and ask it each time: a reload puts new sections in place of the old ones.
    """

    mqtt: Mqtt = Mqtt()
    limits: Limits = Limits()
    sessions: Sessions = Sessions()
    registry: RegistrySettings = RegistrySettings()
    classes: Mapping[str, ClientClass] = field(default_factory=dict)

    def queue_of(self, session_id: str) -> tuple[str, QueueLimits]:
        """The backend of a client's queue, empty for the log, and what the queue may hold: by the first class that
        matches. Asked when a session begins, and for the limits of one that is resumed.
        """
        sessions = self.sessions
        client_id = session_id.rpartition("\0")[2]  # without the mount point
        backend = sessions.queue
        most, most_bytes = sessions.max_queued_messages, sessions.max_queued_bytes
        ttl_s, on_full = sessions.queue_ttl_s, sessions.on_full
        for rule in self.classes.values():
            if fnmatchcase(client_id, rule.clients):
                backend = rule.queue
                most = most if rule.max_queued_messages is None else rule.max_queued_messages
                most_bytes = most_bytes if rule.max_queued_bytes is None else rule.max_queued_bytes
                ttl_s = ttl_s if rule.queue_ttl_s is None else rule.queue_ttl_s
                on_full = rule.on_full or on_full
                break
        return "" if backend == LOG else backend, QueueLimits(most, most_bytes, ttl_s, on_full=on_full)
