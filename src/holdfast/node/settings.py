"""Every setting of a node, in one tree: sections are classes, keys are fields, defaults stand beside them.

    Settings
    ├── listeners   by name: where clients come in
    ├── mqtt        what the protocol leaves to the server
    ├── limits      what a client may cost
    ├── sessions    what a session may keep
    ├── classes     by name: clients whose messages wait elsewhere
    ├── security    who may come in, and what they may do
    ├── storage     where data lies, and what an acknowledgement means
    ├── zones       by name: topics that are stored in another way
    ├── journal     client queues in files
    ├── redis       … in Redis
    ├── postgres    … in PostgreSQL
    ├── history     the process that serves what is stored
    ├── log         log lines
    └── sys         the broker's own topics

The loader, the error messages and the reference page read the notes (`Key`) of this tree; a key is described nowhere
else. `mqtt`, `limits`, `sessions` and `classes` stand in `broker.policy`, beside what keeps to them; `history` in
`history.settings`, homes of queues in `queue_settings`. This module reads nothing: files and environment are the
business of `settings_load`, rules between keys that of `settings_check`.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Final, Literal

from holdfast.broker.policy import ClientClass, Key, Limits, Mqtt, Sessions
from holdfast.history.settings import History
from holdfast.node.queue_settings import JournalSettings, PostgresSettings, RedisSettings

ListenerKind = Literal["tcp", "tls", "ws", "wss"]
Durability = Literal["fsync", "os", "memory"]
DeliverQos1 = Literal["after_commit", "before_commit"]
WriteError = Literal["refuse", "warn"]
Layout = Literal["learned", "timeline", "bitmask"]
LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["auto", "json", "console"]

#: Where a listener listens that names no port.
DEFAULT_PORTS: Final[Mapping[str, int]] = MappingProxyType({"tcp": 1883, "tls": 8883, "ws": 8083, "wss": 8084})
TLS_KINDS: Final = frozenset({"tls", "wss"})
WEBSOCKET_KINDS: Final = frozenset({"ws", "wss"})
DEFAULT_WEBSOCKET_PATH: Final = "/mqtt"
#: In place of an origin: all of them.
ANY_ORIGIN: Final = "*"
#: The listener that there is when none is given, and that `--host` and `--port` speak of.
DEFAULT_LISTENER: Final = "default"


@dataclass(frozen=True, kw_only=True)
class Listener:
    """One place where clients come in. Repeat the table under another name for another place."""

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
        str, Key("Put in front of every topic of its clients, and taken off on the way out; empty for none.")
    ] = ""
    proxy_protocol: Annotated[
        bool,
        Key(
            "Whether every connection begins with a PROXY header (version 2) that states the client's address. "
            "Whoever reaches such a listener can claim any."
        ),
    ] = False
    allow_anonymous: Annotated[
        bool | None,
        Key("Whether clients may come without credentials here; not set, `security.allow_anonymous` rules."),
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
            "for all; ws and wss. Not set: all, but none where a browser would come in without a password: with a "
            "client certificate, or without credentials beyond loopback. Clients that are no browsers are let in."
        ),
    ] = ""
    max_connections: Annotated[
        int, Key("Connections at one time through this listener; 0 leaves it to `limits.max_connections`.", 0)
    ] = 0

    def origins_allowed(self, *, anonymous: bool) -> tuple[str, ...] | None:
        """Values of the `Origin` header that a browser may come with; None for any.

        A page of any site can have the browsers of its visitors connect. It knows no password; but a client certificate
        is the browser's, and where no credentials are wanted a visitor in the right network is enough.
        """
        given = [origin.strip() for origin in self.allowed_origins.split(",") if origin.strip()]
        if given:
            return None if ANY_ORIGIN in given else tuple(given)
        exposed = self.client_ca is not None or (anonymous and not self.is_loopback)
        return () if exposed else None

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it. A name other than localhost is taken to be reachable by others."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


@dataclass(frozen=True, kw_only=True)
class Security:
    """Who may come in, and what they may do."""

    password_file: Annotated[Path | None, Key("User names and hashed passwords; `holdfast user add` writes it.")] = None
    acl_file: Annotated[Path | None, Key("Access rules: who may publish and subscribe to what. Not set, all may.")] = (
        None
    )
    allow_anonymous: Annotated[
        bool | None,
        Key(
            "Whether clients may come without credentials. Not set: only on loopback, and if no `password_file` is set."
        ),
    ] = None


_WEEK_S: Final = 7 * 24 * 3600

# Keys that zones and the default zone have in common.
_Shards = Annotated[
    int, Key("Parts that the publishers are divided into, by client id; order is kept inside a part.", 1, 256)
]
_Layout = Annotated[
    Layout,
    Key(
        "How messages are laid out on disk. `learned` finds any filter fast; `timeline` costs least, and a replay "
        "reads everything in its time range; `bitmask` lies between them."
    ),
]
_Thresholds = Annotated[
    str,
    Key(
        'Names at one topic level above which `learned` takes the level to vary: `"20,10"` means 20 at the first '
        "level and 10 at all others. Empty leaves it to the layout."
    ),
]
_RetentionS = Annotated[int, Key("Seconds that messages are kept; 0 keeps them for ever.", 0)]
_RetentionBytes = Annotated[
    int, Key("Bytes on disk above which the oldest messages go, however young they are; 0 sets no bound.", 0)
]
_GenerationS = Annotated[
    int, Key("Seconds of messages that are dropped together; 0 chooses a twelfth of the retention.", 0)
]
_GenerationBytes = Annotated[
    int,
    Key(
        "Bytes that are dropped together, at most; 0 chooses a twelfth of `retention_bytes`, if there is that bound.", 0
    ),
]
_OptimizeIntervalS = Annotated[
    int,
    Key(
        "Seconds between two looks at what `learned` has learnt, and the least age of a generation that ends because "
        "of it; 0 never looks.",
        0,
        _WEEK_S,
    ),
]
_OptimizeGain = Annotated[
    float,
    Key(
        "Share of the messages, or of many streams, that have to be placed better by the patterns known now, for a new "
        "generation to begin before its time.",
        0.01,
        1,
    ),
]
_StoreQos0 = Annotated[bool, Key("Whether QoS 0 messages are stored as well, for replay. Nobody waits for them.")]

_DeliverQos1 = Annotated[
    DeliverQos1,
    Key(
        "When live subscribers get QoS 1 messages. `before_commit` saves them the wait for the disk, and shows them "
        "messages that a power loss may take back; QoS 2 and groups always wait, and so does the PUBACK."
    ),
]


@dataclass(frozen=True, kw_only=True)
class Storage:
    """Where data lies, and what an acknowledgement means. What is not about files holds for topics of no zone."""

    data: Annotated[Path, Key("Folder of the broker's data; made if it is not there.")] = Path("./holdfast-data")
    durability: Annotated[
        Durability,
        Key(
            "What an acknowledged message survives. `fsync`: a power loss; each acknowledgement waits for a sync of "
            "the disk. `os`: a crash of the broker or a kill -9; a power loss takes what came in the last "
            "`sync_interval_s`. `memory`: a client's reconnect; nothing is written, and it ends with the broker."
        ),
    ] = "fsync"
    shards: _Shards = 1
    layout: _Layout = "learned"
    thresholds: _Thresholds = ""
    retention_s: _RetentionS = _WEEK_S
    retention_bytes: _RetentionBytes = 0
    generation_s: _GenerationS = 0
    generation_bytes: _GenerationBytes = 0
    optimize_interval_s: _OptimizeIntervalS = 600
    optimize_gain: _OptimizeGain = 0.5
    store_qos0: _StoreQos0 = True
    deliver_qos1: _DeliverQos1 = "after_commit"
    # A kernel writes pages back after 30 s of its own accord; this makes it a promise.
    sync_interval_s: Annotated[
        float,
        Key("Seconds after which at the latest what nobody waits for is synced too: `os` and `memory`.", 0.1, 3600),
    ] = 30.0
    # What is acknowledged must have room: 128 MiB of write-ahead log, 256 MiB of write buffers to be flushed, and as
    # much again and more while a compaction writes the new files beside the old ones.
    min_free_bytes: Annotated[
        int,
        Key(
            "Bytes free on the disk below which QoS 1 and 2 messages that have to be stored are refused, with 0x97; "
            "reading goes on, and so does writing once there is room.",
            0,
        ),
    ] = 1 << 30
    min_free_percent: Annotated[
        float, Key("The same as a share of the disk; the larger of the two counts. 0 leaves it to the bytes.", 0, 50)
    ] = 0.0
    on_write_error: Annotated[
        WriteError,
        Key(
            "What becomes of QoS 1 and 2 messages that there is no room to store. `refuse`: they are refused below the "
            "mark, and wait when a write fails. `warn`: they are acknowledged and go to whoever is connected, and are "
            "not stored; when a write fails, that is QoS 1, and QoS 2 waits. The log says so and how many."
        ),
    ] = "refuse"


@dataclass(frozen=True, kw_only=True)
class ZoneSettings:
    """Topics that are stored in another way than the rest. Zones may not overlap."""

    filter: Annotated[
        str, Key("Its topics, as clients write them, such as `plant/+/press/#`; every zone needs it.")
    ] = ""
    durability: Annotated[
        Durability | None,
        Key(
            "As `storage.durability`, which rules if this is not set. A zone with `memory` is written as well, but "
            "no acknowledgement waits for that."
        ),
    ] = None
    shards: _Shards = 1
    layout: _Layout = "learned"
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
            "Whether its messages are written at all. With `false` they survive a client's reconnect and no more, as "
            "with `memory`, and cannot be replayed."
        ),
    ] = True
    store_qos0: _StoreQos0 = True
    deliver_qos1: _DeliverQos1 = "after_commit"


@dataclass(frozen=True, kw_only=True)
class Log:
    """Log lines, on standard error."""

    level: Annotated[LogLevel, Key("The least important lines that are written.", live=True)] = "info"
    format: Annotated[LogFormat, Key("JSON, colours for a person, or by whether it is a terminal.", live=True)] = "auto"


@dataclass(frozen=True, kw_only=True)
class Sys:
    """The broker's own topics."""

    interval_s: Annotated[
        float, Key("Seconds between two rounds of `$SYS/broker/…`; 0 switches them off.", 0, 86400, live=True)
    ] = 10.0


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The whole tree. `Settings()` is what `holdfast serve` runs with when nothing else is said."""

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
    log: Log = field(default_factory=Log)
    sys: Sys = field(default_factory=Sys)
    #: `section.key` → where its value comes from; a key that is missing here has its default.
    sources: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    def on_disk(self) -> bool:
        """Whether anything is to outlive the node. If not, it has no data folder and needs no storage library."""
        return self.storage.durability != "memory" or any(zone.store for zone in self.zones.values())

    def anonymous_allowed(self, listener: Listener) -> bool:
        """Whether a client may come in through `listener` without credentials."""
        if listener.allow_anonymous is not None:
            return listener.allow_anonymous
        if self.security.allow_anonymous is not None:
            return self.security.allow_anonymous
        return listener.is_loopback and self.security.password_file is None and not listener.require_client_certificate


#: The sections that are one table each.
SECTIONS: Final[Mapping[str, type]] = MappingProxyType(
    {
        "mqtt": Mqtt,
        "limits": Limits,
        "sessions": Sessions,
        "security": Security,
        "storage": Storage,
        "journal": JournalSettings,
        "redis": RedisSettings,
        "postgres": PostgresSettings,
        "history": History,
        "log": Log,
        "sys": Sys,
    }
)


@dataclass(frozen=True)
class Tables:
    """A section of any number of tables, each under a name of its own."""

    #: What one of them is called.
    noun: str
    #: The class of each.
    table: type
    #: A name and a key, to show how one is written.
    example: tuple[str, str]


#: The sections that are tables of tables.
TABLES: Final[Mapping[str, Tables]] = MappingProxyType(
    {
        "listeners": Tables("listener", Listener, (DEFAULT_LISTENER, "port")),
        "zones": Tables("zone", ZoneSettings, ("machines", "filter")),
        "classes": Tables("class", ClientClass, ("devices", "clients")),
    }
)

#: All sections, in the order of the tree.
TREE: Final = tuple(entry.name for entry in fields(Settings) if entry.name != "sources")
