"""Settings of the queue backends outside the log. A backend that no session uses is not opened."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from holdfast.broker.policy import Key

QueueDurability = Literal["fsync", "os"]
SynchronousCommit = Literal["on", "remote_apply", "remote_write", "local", "off"]

_Timeout = Annotated[float, Key("Seconds that one reply may take.", 0.01, 600)]
_GiveUp = Annotated[
    float,
    Key("Seconds that a call is repeated before the backend counts as away; then it is tried less often.", 0.01),
]
_Connections = Annotated[int, Key("Connections to each server, at most.", 1, 1000)]
_PasswordFile = Annotated[Path | None, Key("A file whose first line is the password.")]


@dataclass(frozen=True, kw_only=True)
class JournalSettings:
    """Queues in journal files, for `queue = "journal"`."""

    folder: Annotated[Path | None, Key("Their folder; not set, `queues` in `storage.data`.")] = None
    durability: Annotated[
        QueueDurability,
        Key(
            "What an acknowledged message survives. `fsync`: a power loss. `os`: a crash of the broker or a kill -9; a "
            "power loss takes what came in the last `sync_interval_s`."
        ),
    ] = "fsync"
    sync_interval_s: Annotated[float, Key("The most seconds until `os` is synced.", 0.1, 3600)] = 30.0
    fragments: Annotated[
        str,
        Key(
            'Letters of each folder in the path of a queue, such as `"2,2,2,2"`, which a new journal has. Empty: as '
            "they are."
        ),
    ] = ""
    max_queue_messages: Annotated[
        int,
        Key(
            "The most messages that wait in any queue, also if its class allows more; then `on_full` holds, as for "
            "`max_queued_messages`.",
            1,
        ),
    ] = 100_000
    max_file_messages: Annotated[
        int, Key("Messages after which a file is full; more than `max_queue_messages`.", 2)
    ] = 131_072
    backup_files: Annotated[int, Key("The most dated copies of a queue's states that are kept, for diagnosis.", 1)] = 16
    backup_days: Annotated[
        float, Key("Days for which they are kept; the youngest older copy is always kept.", 0, 3650)
    ] = 1.0
    max_open_queues: Annotated[int, Key("The most queues whose files are open.", 1)] = 256
    idle_s: Annotated[float, Key("Seconds after which an unused queue closes its files.", 0.1)] = 60.0


@dataclass(frozen=True, kw_only=True)
class RedisSettings:
    """Queues in Redis or Redis Cluster, for `queue = "redis"`; needs `pip install holdfast[redis]`."""

    url: Annotated[
        str,
        Key(
            "Such as `redis://127.0.0.1:6379/0`, `rediss://user@host` for TLS, `unix:///run/redis.sock`; several with "
            "commas between them: members of a cluster, or servers of which one is the master."
        ),
    ] = "redis://127.0.0.1:6379/0"
    password_file: _PasswordFile = None
    cluster: Annotated[bool, Key("Whether it is a Redis Cluster.")] = False
    prefix: Annotated[
        str, Key("Prefix of every key. Brokers that share a Redis need different ones, or they mix up their queues.")
    ] = "holdfast:"
    replicas: Annotated[
        int, Key("Replicas that must have a message before it is acknowledged; 0 for the master alone.", 0, 10)
    ] = 0
    replicas_timeout_s: Annotated[float, Key("Seconds that these replicas may take; below `timeout_s`.", 0.01)] = 1.0
    timeout_s: _Timeout = 5.0
    give_up_s: _GiveUp = 15.0
    connections: _Connections = 4
    pipelined: Annotated[bool, Key("Whether calls are pipelined; `false` for a proxy that cannot.")] = True
    tls_ca: Annotated[Path | None, Key("Authorities for `rediss://`, PEM; not set, those of the system.")] = None
    tls_certificate: Annotated[Path | None, Key("The broker's own certificate, PEM.")] = None
    tls_key: Annotated[Path | None, Key("The private key of `tls_certificate`, PEM.")] = None


@dataclass(frozen=True, kw_only=True)
class PostgresSettings:
    """Queues in PostgreSQL, for `queue = "postgres"`; needs `pip install holdfast[postgres]`."""

    url: Annotated[
        str,
        Key(
            "In libpq's form, such as `postgresql://holdfast@127.0.0.1/holdfast`; several hosts, sockets and TLS "
            "(`?sslmode=verify-full&sslrootcert=…`) as there."
        ),
    ] = "postgresql://holdfast@127.0.0.1/holdfast"
    password_file: _PasswordFile = None
    schema: Annotated[
        str, Key("The schema that holds the tables. Brokers that share a database need different ones.")
    ] = "holdfast"
    timeout_s: _Timeout = 5.0
    give_up_s: _GiveUp = 15.0
    connections: _Connections = 4
    synchronous_commit: Annotated[
        SynchronousCommit | None,
        Key("What PostgreSQL waits for before a message is acknowledged; not set, the server's own setting."),
    ] = None
