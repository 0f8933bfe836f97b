"""Options of the queue backend in PostgreSQL."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from holdfast.model.errors import SettingsError

#: What PostgreSQL waits for before it confirms a transaction; empty for the server's own setting.
SYNCHRONOUS_COMMIT = ("", "on", "remote_apply", "remote_write", "local", "off")


@dataclass(frozen=True)
class PostgresOptions:
    """The server and the timeouts.

    1. `url` is as libpq knows it: user and password, several hosts (of which one that takes writes is used), a socket
       (`?host=/run/postgresql`), TLS (`?sslmode=verify-full&sslrootcert=…`).
    """

    url: str
    #: The schema that holds the tables: several brokers may share a database.
    schema: str = "holdfast"
    #: How long one step may take, and how long work is repeated before it fails.
    timeout_s: float = 5.0
    give_up_s: float = 15.0
    connections: int = 4
    synchronous_commit: str = ""

    def __post_init__(self) -> None:
        if urlsplit(self.url).scheme not in ("postgresql", "postgres"):
            raise SettingsError(
                "a PostgreSQL URL begins with postgresql://, such as postgresql://user@127.0.0.1/holdfast"
            )
        if not re.fullmatch("[a-z_][a-z0-9_]{0,62}", self.schema):
            raise SettingsError(f"{self.schema!r} is no name of a schema; right would be holdfast")
        if min(self.timeout_s, self.give_up_s) <= 0 or self.connections < 1:
            raise SettingsError("times of PostgreSQL are above 0 s, and at least one connection is needed")
        if self.synchronous_commit not in SYNCHRONOUS_COMMIT:
            raise SettingsError(f"synchronous_commit is one of {', '.join(SYNCHRONOUS_COMMIT[1:])}, or empty")
