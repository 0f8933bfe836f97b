"""Clients, connected and offline, in a table that can be searched, sorted and paged: SQLite in memory.

    snapshot   begin() ─▶ add(rows) … ─▶ end()      rows of an earlier snapshot stay until the new one is complete
    changes    add(rows), remove(session ids)

Searching and sorting a hundred thousand clients costs the broker nothing: it only says who came, changed and went.

1. A connected client stands in the table once, by its session; an offline session only while it is not connected.
2. Pages continue behind the last row shown, by sort value and session. Rows that come meanwhile shift none away.
"""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from holdfast.console.cursors import decode_cursor, encode_cursor
from holdfast.control.words import ClientRow

#: The columns of `ClientRow`, in its order.
_FIELDS: Final = tuple(field.name for field in msgspec.structs.fields(ClientRow))
#: What may be sorted by, with the column that holds it; each has an index.
SORTS: Final = {
    "client": "session_id",
    "since": "since_us",
    "owed": "owed",
    "inflight": "inflight",
}
STATES: Final = ("connected", "offline", "behind")

_CREATE: Final = f"""
CREATE TABLE client ({", ".join(f'"{name}"' for name in _FIELDS)},
    connected INTEGER NOT NULL, snapshot INTEGER NOT NULL, found TEXT NOT NULL,
    disconnected_us INTEGER, PRIMARY KEY (session_id)) WITHOUT ROWID;
CREATE INDEX by_since ON client (since_us, session_id);
CREATE INDEX by_owed ON client (owed, session_id);
CREATE INDEX by_inflight ON client (inflight, session_id);
CREATE INDEX by_state ON client (connected, behind, session_id);
CREATE INDEX by_found ON client (found, session_id);
"""
_INSERT: Final = f"INSERT OR REPLACE INTO client VALUES ({', '.join('?' * (len(_FIELDS) + 4))})"
_INSERT_OFFLINE: Final = (
    f"INSERT INTO client VALUES ({', '.join('?' * (len(_FIELDS) + 4))}) "
    "ON CONFLICT (session_id) DO UPDATE SET snapshot = excluded.snapshot, owed = excluded.owed, "
    "inflight = excluded.inflight, subscriptions = excluded.subscriptions, expiry_s = excluded.expiry_s, "
    "disconnected_us = excluded.disconnected_us WHERE connected = 0"
)


@dataclass(frozen=True, kw_only=True)
class ClientQuery:
    """What a page of clients shows."""

    #: Part of the client id, the user or the address, in any case.
    text: str = ""
    #: One of STATES; empty for all.
    state: str = ""
    user: str = ""
    listener: str = ""
    #: A key of SORTS, with `-` in front for the largest first.
    sort: str = "client"
    limit: int = 100
    cursor: str = ""


@dataclass(frozen=True)
class ClientPage:
    rows: list[dict[str, Any]]
    #: Clients in the table, and those that match.
    total: int
    matched: int
    next_cursor: str | None


class ClientTable:
    """One table, for one thread."""

    def __init__(self) -> None:
        self._database: Final = sqlite3.connect(":memory:", isolation_level=None)
        self._database.executescript(_CREATE)
        self._snapshot = 0
        self._offline_snapshot = 0
        #: Whether a snapshot was complete at least once.
        self.is_complete = False

    # ---- connected clients

    def begin(self) -> None:
        """A new snapshot begins."""
        self._snapshot += 1

    def add(self, rows: Iterable[ClientRow]) -> None:
        """Clients of a snapshot, or clients that came or changed."""
        values = [(*(getattr(row, name) for name in _FIELDS), 1, self._snapshot, _found(row), None) for row in rows]
        with self._transaction():
            self._database.executemany(_INSERT, values)

    def end(self) -> None:
        """The snapshot is complete: clients that it did not have are gone."""
        self._database.execute("DELETE FROM client WHERE connected = 1 AND snapshot <> ?", (self._snapshot,))
        self.is_complete = True

    def remove(self, session_ids: Iterable[str]) -> None:
        """Their connections are gone."""
        with self._transaction():
            self._database.executemany(
                "DELETE FROM client WHERE session_id = ? AND connected = 1", [(name,) for name in session_ids]
            )

    # ---- offline sessions, as the history process lists them

    def begin_offline(self) -> None:
        """A new list of offline sessions begins."""
        self._offline_snapshot += 1

    def add_offline(self, sessions: Iterable[dict[str, Any]]) -> None:
        """Entries of the history process' `/sessions`; those of connected clients are passed over."""
        values = []
        for session in sessions:
            if session.get("connected"):
                continue
            row = _offline_row(session)
            disconnected_us = session.get("disconnected_us")
            values.append(
                (*(getattr(row, name) for name in _FIELDS), 0, self._offline_snapshot, _found(row), disconnected_us)
            )
        with self._transaction():
            self._database.executemany(_INSERT_OFFLINE, values)

    def end_offline(self) -> None:
        """The list is complete: sessions that it did not have are over."""
        self._database.execute("DELETE FROM client WHERE connected = 0 AND snapshot <> ?", (self._offline_snapshot,))

    # ---- pages

    def page(self, query: ClientQuery) -> ClientPage:
        """ProblemError (400) if the cursor is none of this list."""
        where, values = _condition(query)
        one = self._database.execute
        total = one("SELECT count(*) FROM client").fetchone()[0]
        matched = one(f"SELECT count(*) FROM client {_where(where)}", values).fetchone()[0] if where else total
        column = SORTS[query.sort.removeprefix("-")]
        descending = query.sort.startswith("-")
        if query.cursor:
            # The same sign for both columns, so that an index serves.
            sign = "<" if descending else ">"
            where.append(f"({column}, session_id) {sign} (?, ?)")
            values += decode_cursor(query.cursor, int | float | str, str)
        order = "DESC" if descending else "ASC"
        rows = one(
            f"SELECT {', '.join(_FIELDS)}, connected, disconnected_us FROM client {_where(where)} "
            f"ORDER BY {column} {order}, session_id {order} LIMIT ?",
            [*values, query.limit + 1],
        ).fetchall()
        shown = [_shown(row) for row in rows[: query.limit]]
        more = len(rows) > query.limit
        last = encode_cursor([shown[-1][column], shown[-1]["session_id"]]) if more else None
        return ClientPage(shown, total, matched, last)

    def find(self, session_ids: Iterable[str]) -> dict[str, bool]:
        """Which of these sessions there are, and whether each is connected."""
        found: dict[str, bool] = {}
        for name in session_ids:
            row = self._database.execute("SELECT connected FROM client WHERE session_id = ?", (name,)).fetchone()
            if row is not None:
                found[name] = bool(row[0])
        return found

    def close(self) -> None:
        self._database.close()

    def _transaction(self) -> "_Transaction":
        return _Transaction(self._database)


class _Transaction:
    def __init__(self, database: sqlite3.Connection) -> None:
        self._database: Final = database

    def __enter__(self) -> None:
        self._database.execute("BEGIN")

    def __exit__(self, failure: object, *_rest: object) -> None:
        self._database.execute("COMMIT" if failure is None else "ROLLBACK")


def _found(row: ClientRow) -> str:
    """What a search looks through."""
    return f"{row.client_id}\n{row.session_id}\n{row.user}\n{row.address}".casefold()


def _offline_row(session: dict[str, Any]) -> ClientRow:
    name = str(session["session_id"])
    return ClientRow(
        session_id=name,
        client_id=name,
        user=session.get("user") or "",
        address="",
        port=0,
        listener="",
        transport="",
        version=0,
        since_us=session.get("disconnected_us") or 0,
        keep_alive_s=0,
        expiry_s=session.get("expiry_s") or 0,
        subscriptions=session.get("subscriptions") or 0,
        inflight=session.get("inflight") or 0,
        behind=False,
        owed=session.get("owed_at_most") or 0,
    )


def _condition(query: ClientQuery) -> tuple[list[str], list[Any]]:
    where: list[str] = []
    values: list[Any] = []
    if query.text:
        # The names alone, from their index: a tenth of the bytes of all rows.
        where.append("session_id IN (SELECT session_id FROM client INDEXED BY by_found WHERE instr(found, ?))")
        values.append(query.text.casefold())
    for column, wanted in (("user", query.user), ("listener", query.listener)):
        if wanted:
            where.append(f"{column} = ?")
            values.append(wanted)
    if query.state == "connected":
        where.append("connected = 1")
    elif query.state == "offline":
        where.append("connected = 0")
    elif query.state == "behind":
        where.append("connected = 1 AND behind = 1")
    return where, values


def _where(conditions: list[str]) -> str:
    return f"WHERE {' AND '.join(conditions)}" if conditions else ""


def _shown(row: tuple[Any, ...]) -> dict[str, Any]:
    found = dict(zip((*_FIELDS, "connected", "disconnected_us"), row, strict=True))
    found["behind"] = bool(found["behind"])
    found["connected"] = bool(found["connected"])
    return found
