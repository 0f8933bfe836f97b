"""The tables, by version. A newer Holdfast migrates older tables; an older one refuses newer tables.

`session_context` and `message` have the columns that a TBMQ 1.x has for the same purpose, but for packet ids: these are
given out when a message is sent, and lie with the session, which has to know them before. And what is missing there:

    number                  the node's, so that nothing is stored twice
    expires_us              when it goes, by its own expiry or by the queue's; 0 for never
    read_serial_number      the last one that was read: what is above it waits, and is what limits are for
    waiting_*               how much that is, with what has expired and was not removed yet

1. A migration that was released never changes.
2. A transaction that changes waiting messages holds the lock of the client's row in `session_context`.
"""

from typing import Final

from holdfast.model.errors import SettingsError
from holdfast.storage.postgres.connection import PostgresConnection

_FIRST: Final = """
CREATE TABLE session_context (
    client_id            text COLLATE "C" PRIMARY KEY,
    last_updated_time    bigint NOT NULL,
    last_serial_number   bigint NOT NULL,
    last_packet_id       integer,
    last_number          bigint NOT NULL,
    read_serial_number   bigint NOT NULL,
    waiting_messages     bigint NOT NULL,
    waiting_bytes        bigint NOT NULL,
    "full"               boolean NOT NULL
) WITH (fillfactor = 70);

CREATE TABLE message (
    client_id                 text COLLATE "C" NOT NULL,
    serial_number             bigint NOT NULL,
    topic                     text NOT NULL,
    "time"                    bigint NOT NULL,
    packet_id                 integer,
    packet_type               text NOT NULL,
    qos                       integer NOT NULL,
    payload                   bytea NOT NULL,
    user_properties           text,
    retain                    boolean NOT NULL,
    msg_expiry_interval       bigint,
    payload_format_indicator  integer,
    content_type              text,
    response_topic            text,
    correlation_data          bytea,
    number                    bigint NOT NULL,
    expires_us                bigint NOT NULL,
    size_bytes                bigint NOT NULL,
    publisher                 text NOT NULL,
    published_qos             integer NOT NULL,
    published_retain          boolean NOT NULL,
    received_us               bigint NOT NULL,
    message_expires_us        bigint NOT NULL,
    properties                bytea,
    identifiers               text,
    PRIMARY KEY (client_id, serial_number)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000);

CREATE INDEX message_packet_id ON message (client_id, packet_id) WHERE packet_id IS NOT NULL;
CREATE INDEX message_expires ON message (expires_us) WHERE expires_us > 0;
"""

#: Columns that were never written, and the index on them. PostgreSQL takes them out of its catalogue; rows stay.
_SECOND: Final = """
DROP INDEX message_packet_id;
ALTER TABLE message DROP COLUMN packet_id;
ALTER TABLE session_context DROP COLUMN last_packet_id;
"""

#: Number n migrates version n - 1 to n. Never change one that was released.
MIGRATIONS: Final = (_FIRST, _SECOND)
VERSION: Final = len(MIGRATIONS)

#: The key of an advisory lock, held while tables change: any number that no other program is likely to use.
_LOCK: Final = 0x686F6C6466617374


async def prepare(connection: PostgresConnection, schema: str) -> None:
    """Ensures: the tables are those of this version. SettingsError if they are of a newer one."""
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
        if not await connection.fetchval("SELECT to_regclass($1 || '.schema_version') IS NOT NULL", schema):
            await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
            await connection.execute(f"CREATE TABLE {schema}.schema_version (version integer NOT NULL)")
            await connection.execute(f"INSERT INTO {schema}.schema_version VALUES (0)")
        found = await connection.fetchval(f"SELECT version FROM {schema}.schema_version")
        if found > VERSION:
            raise SettingsError(
                f"the tables in schema {schema} have version {found}, this Holdfast knows version {VERSION}: "
                "use the Holdfast that made them, or a newer one"
            )
        if found == VERSION:
            return
        await connection.execute(f"SET LOCAL search_path TO {schema}")
        for migration in MIGRATIONS[found:]:
            await connection.execute(migration)
        await connection.execute(f"UPDATE {schema}.schema_version SET version = $1", VERSION)
