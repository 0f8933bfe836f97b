"""Every setting of a node, in one tree: sections are classes, keys are fields with their defaults.

    Settings
    ├── listeners   by name: where clients connect
    ├── mqtt        what the protocol leaves to the server
    ├── limits      what a client may use
    ├── sessions    what a session may keep
    ├── classes     by name: clients whose queues are in another backend
    ├── security    who may connect, publish and subscribe
    ├── storage     the data folder, and what an acknowledged message survives
    ├── zones       by name: topics with their own storage settings
    ├── journal     client queues in files
    ├── redis       … in Redis
    ├── postgres    … in PostgreSQL
    ├── history     the process that serves stored messages
    ├── console     the process that serves the web console, the API and metrics
    ├── cluster     several nodes as one broker
    ├── registry    which connection of a client id counts there
    ├── log         log lines
    └── sys         the broker's own topics

The loader, the error messages and the reference page read the notes (`Key`) of this tree; a key is described nowhere
else. `mqtt`, `limits`, `sessions`, `registry` and `classes` are in `broker.policy`, with the code that uses them;
`history` is in `history.settings`, queue backends are in `queue_sections`, `cluster` in `cluster_section`, `console` in
`console_section`. This module reads nothing: `loader` reads files and environment, and `rules` checks rules between
keys.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Final, Literal, get_type_hints

from holdfast.broker.policy import ClientClass, Key, Limits, Mqtt, RegistrySettings, Sessions
from holdfast.history.settings import History, is_loopback
from holdfast.node.settings.cluster_section import ClusterSettings
from holdfast.node.settings.console_section import ConsoleSettings
from holdfast.node.settings.queue_sections import JournalSettings, PostgresSettings, RedisSettings

ListenerKind = Literal["tcp", "tls", "ws", "wss"]
Durability = Literal["fsync", "os", "memory"]
DeliverQos1 = Literal["after_commit", "before_commit"]
WriteError = Literal["refuse", "warn"]
SyncOnLoop = Literal["auto", "never"]
Layout = Literal["paged", "learned", "timeline", "bitmask"]
LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["auto", "json", "console"]

#: The default port of each kind of listener.
DEFAULT_PORTS: Final[Mapping[str, int]] = MappingProxyType({"tcp": 1883, "tls": 8883, "ws": 8083, "wss": 8084})
TLS_KINDS: Final = frozenset({"tls", "wss"})
WEBSOCKET_KINDS: Final = frozenset({"ws", "wss"})
DEFAULT_WEBSOCKET_PATH: Final = "/mqtt"
#: Stands for every origin.
ANY_ORIGIN: Final = "*"
#: The listener that exists if none is configured, and that `--host` and `--port` change.
DEFAULT_LISTENER: Final = "default"


@dataclass(frozen=True, kw_only=True)
class Listener:
    """An address where clients connect. Repeat the table under another name for another address."""

    kind: Annotated[ListenerKind, Key("Transport: plain TCP, TLS, WebSocket, or WebSocket over TLS.")] = "tcp"
    host: Annotated[str, Key("Address or name to listen on; `*` means every address.")] = "127.0.0.1"
    port: Annotated[
        int,
        Key(
            "Port; 0 picks a free one. Not given, it is 1883 for tcp, 8883 for tls, 8083 for ws, 8084 for wss.",
            0,
            65535,
        ),
    ] = 1883
    mount_point: Annotated[
        str, Key("Prefix of every topic of its clients, removed from messages to them; empty for none.")
    ] = ""
    proxy_protocol: Annotated[
        bool,
        Key(
            "Whether every connection begins with a PROXY header (version 2) that states the client's address. "
            "A client that reaches such a listener directly can claim any address."
        ),
    ] = False
    allow_anonymous: Annotated[
        bool | None,
        Key("Whether clients may connect without credentials; not set, as `security.allow_anonymous`."),
    ] = None
    certificate: Annotated[Path | None, Key("The server's certificate chain, PEM; tls and wss need it.")] = None
    key: Annotated[Path | None, Key("The private key of `certificate`, PEM; tls and wss need it.")] = None
    client_ca: Annotated[Path | None, Key("Authorities that sign client certificates, PEM; tls and wss.")] = None
    require_client_certificate: Annotated[
        bool,
        Key("Refuse clients without a certificate signed by `client_ca`; its common name is the user name."),
    ] = False
    crl: Annotated[
        Path | None,
        Key(
            "Revocation lists of the authorities in `client_ca`, PEM. A client certificate that is listed is refused, "
            "and one whose authority has no list here, or an outdated one."
        ),
    ] = None
    path: Annotated[str, Key("Path of the WebSocket; ws and wss.")] = DEFAULT_WEBSOCKET_PATH
    allowed_origins: Annotated[
        str,
        Key(
            "Web pages whose scripts may connect, such as `https://example.org`, several with commas between them; `*` "
            "for all; ws and wss. Not set: all, but none where a browser would connect without a password: with a "
            "client certificate, or without credentials beyond loopback. Other clients are not affected."
        ),
    ] = ""
    max_connections: Annotated[
        int, Key("The most connections at a time; 0 leaves it to `limits.max_connections`.", 0)
    ] = 0

    def origins_allowed(self, *, anonymous: bool) -> tuple[str, ...] | None:
        """Values of the `Origin` header that browsers may send; None for any.

        A page of any site can make the browsers of its visitors connect. The page has no password; but the browser has
        the client certificate, and without credentials a visitor in the right network is enough.
        """
        given = [origin.strip() for origin in self.allowed_origins.split(",") if origin.strip()]
        if given:
            return None if ANY_ORIGIN in given else tuple(given)
        exposed = self.client_ca is not None or (anonymous and not self.is_loopback)
        return () if exposed else None

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it. Any name other than localhost counts as reachable by others."""
        return is_loopback(self.host)


@dataclass(frozen=True, kw_only=True)
class Security:
    """Who may connect, and what they may do."""

    password_file: Annotated[Path | None, Key("User names and hashed passwords; `holdfast user add` writes it.")] = None
    acl_file: Annotated[
        Path | None, Key("Access rules: who may publish and subscribe to what. Not set, all clients may.")
    ] = None
    allow_anonymous: Annotated[
        bool | None,
        Key("Whether clients may connect without credentials. Not set: on loopback, if no `password_file` is set."),
    ] = None


_WEEK_S: Final = 7 * 24 * 3600

# Keys that zones and the default zone have in common.
_Shards = Annotated[
    int, Key("Shards that publishers are divided into, by client id; order is kept within a shard.", 1, 256)
]
_Layout = Annotated[
    Layout,
    Key(
        "The layout of messages on disk. `paged` stores each commit as one value and has it sorted by topic later: it "
        "costs least, and finds any filter fast. `learned` has each message under its own key, in place at once. With "
        "`timeline` a replay reads everything in its time range."
    ),
]
_Thresholds = Annotated[
    str,
    Key(
        'Names at one topic level above which the level is taken to vary: `"20,10"` means 20 at the first '
        "level and 10 at all others. Empty leaves it to the layout."
    ),
]
_RetentionS = Annotated[int, Key("Seconds that messages are kept; 0 keeps them without limit.", 0)]
_RetentionBytes = Annotated[
    int, Key("Bytes on disk above which the oldest messages are dropped, at any age; 0 has no limit.", 0)
]
_GenerationS = Annotated[
    int, Key("Seconds of messages that are dropped together; 0 chooses a twelfth of the retention.", 0)
]
_GenerationBytes = Annotated[
    int,
    Key("The most bytes that are dropped together; 0 chooses a twelfth of `retention_bytes`, if that is set.", 0),
]
_OptimizeIntervalS = Annotated[
    int,
    Key(
        "Seconds between two checks of the patterns that the layout `learned` places messages by, and the least age of "
        "a generation that ends because of it; 0 never checks.",
        0,
        _WEEK_S,
    ),
]
_OptimizeGain = Annotated[
    float,
    Key(
        "Share of the messages, or of many streams, that present patterns must place better before a new generation "
        "begins early.",
        0.01,
        1,
    ),
]
_StoreQos0 = Annotated[
    bool, Key("Whether QoS 0 messages are stored as well, for replay. No acknowledgement waits for them.")
]

_DeliverQos1 = Annotated[
    DeliverQos1,
    Key(
        "When live subscribers get QoS 1 messages. `before_commit` does not wait for the disk, and delivers "
        "messages that a power loss may take back; QoS 2, shared groups and the PUBACK always wait."
    ),
]


@dataclass(frozen=True, kw_only=True)
class Storage:
    """The data folder, and what an acknowledged message survives. Keys of zones hold for topics of no zone."""

    data: Annotated[Path, Key("Folder of the broker's data; made if it does not exist.")] = Path("./holdfast-data")
    durability: Annotated[
        Durability,
        Key(
            "What an acknowledged message survives. `fsync`: a power loss; each acknowledgement waits for a sync of "
            "the disk. `os`: a crash of the broker or a kill -9; a power loss takes what came in the last "
            "`sync_interval_s`. `memory`: a client's reconnect; nothing is written, and messages end with the broker."
        ),
    ] = "fsync"
    shards: _Shards = 1
    layout: _Layout = "paged"
    thresholds: _Thresholds = ""
    retention_s: _RetentionS = _WEEK_S
    retention_bytes: _RetentionBytes = 0
    generation_s: _GenerationS = 0
    generation_bytes: _GenerationBytes = 0
    optimize_interval_s: _OptimizeIntervalS = 600
    optimize_gain: _OptimizeGain = 0.5
    store_qos0: _StoreQos0 = True
    deliver_qos1: _DeliverQos1 = "after_commit"
    # Linux writes pages back after 30 s anyway; this makes it a promise.
    sync_interval_s: Annotated[
        float,
        Key(
            "The most seconds until writes are synced that no acknowledgement waits for: `os` and `memory`.", 0.1, 3600
        ),
    ] = 30.0
    sync_on_loop: Annotated[
        SyncOnLoop,
        Key(
            "Where commits of at most 32 messages are synced. `auto`: on the event loop, which is quicker as long as a "
            "sync takes less than 2 ms, else on the commit thread. `never`: always on the commit thread."
        ),
    ] = "auto"
    # Room for what is acknowledged: 128 MiB of write-ahead log, 256 MiB of write buffers to be flushed, and more than
    # that again while a compaction writes new files beside the old ones.
    min_free_bytes: Annotated[
        int,
        Key(
            "Free bytes on the disk below which QoS 1 and 2 messages that must be stored are refused, with 0x97. "
            "Reading goes on, and writing resumes once there is room.",
            0,
        ),
    ] = 1 << 30
    min_free_percent: Annotated[
        float, Key("The same as a share of the disk; the larger of the two counts. 0 leaves it to the bytes.", 0, 50)
    ] = 0.0
    on_write_error: Annotated[
        WriteError,
        Key(
            "What happens to QoS 1 and 2 messages without room for them. `refuse`: they are refused below the mark, "
            "and wait when a write fails. `warn`: they are acknowledged and delivered to connected clients, and not "
            "stored; when a write fails, this holds for QoS 1, and QoS 2 waits. The log says how many."
        ),
    ] = "refuse"


@dataclass(frozen=True, kw_only=True)
class ZoneSettings:
    """Topics with their own storage settings. Zones may not overlap."""

    filter: Annotated[
        str, Key("Its topics, as clients write them, such as `plant/+/press/#`; every zone needs it.")
    ] = ""
    durability: Annotated[
        Durability | None,
        Key(
            "As `storage.durability`, which holds if this is not set. A zone with `memory` is written as well, but "
            "no acknowledgement waits for it."
        ),
    ] = None
    shards: _Shards = 1
    layout: _Layout = "paged"
    thresholds: _Thresholds = ""
    retention_s: _RetentionS = _WEEK_S
    retention_bytes: _RetentionBytes = 0
    generation_s: _GenerationS = 0
    generation_bytes: _GenerationBytes = 0
    optimize_interval_s: _OptimizeIntervalS = 600
    optimize_gain: _OptimizeGain = 0.5
    store: Annotated[
        bool,
        Key(
            "Whether its messages are written at all. With `false` they only survive a client's reconnect, as "
            "with `memory`, and cannot be replayed."
        ),
    ] = True
    store_qos0: _StoreQos0 = True
    deliver_qos1: _DeliverQos1 = "after_commit"


@dataclass(frozen=True, kw_only=True)
class Log:
    """Log lines, on standard error."""

    level: Annotated[LogLevel, Key("The least level of lines that are written.", live=True)] = "info"
    format: Annotated[
        LogFormat, Key("`json`, `console` with colours, or `auto`: `console` on a terminal.", live=True)
    ] = "auto"


@dataclass(frozen=True, kw_only=True)
class Sys:
    """The broker's own topics."""

    interval_s: Annotated[
        float, Key("Seconds between two rounds of `$SYS/broker/…`; 0 switches them off.", 0, 86400, live=True)
    ] = 10.0


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The whole tree. `Settings()` has the defaults of `holdfast serve`."""

    listeners: Mapping[str, Listener] = field(default_factory=lambda: {DEFAULT_LISTENER: Listener()})
    mqtt: Mqtt = field(default_factory=Mqtt)
    limits: Limits = field(default_factory=Limits)
    sessions: Sessions = field(default_factory=Sessions)
    classes: Mapping[str, ClientClass] = field(default_factory=dict)
    security: Security = field(default_factory=Security)
    storage: Storage = field(default_factory=Storage)
    zones: Mapping[str, ZoneSettings] = field(default_factory=dict)
    journal: JournalSettings = field(default_factory=JournalSettings)
    redis: RedisSettings = field(default_factory=RedisSettings)
    postgres: PostgresSettings = field(default_factory=PostgresSettings)
    history: History = field(default_factory=History)
    console: ConsoleSettings = field(default_factory=ConsoleSettings)
    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    registry: RegistrySettings = field(default_factory=RegistrySettings)
    log: Log = field(default_factory=Log)
    sys: Sys = field(default_factory=Sys)
    #: `section.key` → the source of its value; a key that is missing here has its default.
    sources: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    def on_disk(self) -> bool:
        """Whether anything is stored on disk. If not, the node has no data folder and needs no RocksDB."""
        return self.storage.durability != "memory" or any(zone.store for zone in self.zones.values())

    def anonymous_allowed(self, listener: Listener) -> bool:
        """Whether a client may connect through `listener` without credentials."""
        if listener.allow_anonymous is not None:
            return listener.allow_anonymous
        if self.security.allow_anonymous is not None:
            return self.security.allow_anonymous
        return listener.is_loopback and self.security.password_file is None and not listener.require_client_certificate


#: The sections that are one table each.
SECTIONS: Final[Mapping[str, type]] = MappingProxyType(
    {name: kind for name, kind in get_type_hints(Settings).items() if isinstance(kind, type) and is_dataclass(kind)}
)


@dataclass(frozen=True)
class TableSection:
    """A section of named tables."""

    #: What one of them is called in messages.
    noun: str
    #: The class of each.
    table: type
    #: A name and a key, for examples in messages.
    example: tuple[str, str]


#: The sections that are tables of tables.
TABLES: Final[Mapping[str, TableSection]] = MappingProxyType(
    {
        "listeners": TableSection("listener", Listener, (DEFAULT_LISTENER, "port")),
        "zones": TableSection("zone", ZoneSettings, ("machines", "filter")),
        "classes": TableSection("class", ClientClass, ("devices", "clients")),
    }
)

#: All sections, in the order of the tree.
TREE: Final = tuple(entry.name for entry in fields(Settings) if entry.name != "sources")
