"""The list of clients while somebody looks at it: connected ones from the broker, offline sessions from history.

1. The broker is asked for clients from the first look on, and until a minute after the last one.
2. The first look waits for the snapshot, for two seconds at most. Then the answer says how old it is, or that it is not
   complete yet.
3. Offline sessions are read again in the background while somebody looks, at most every ten seconds.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final

import structlog

from holdfast.console.live.client_table import ClientQuery, ClientTable
from holdfast.console.past.history_link import HistoryLink
from holdfast.console.problems import ProblemError
from holdfast.control.words import ClientChanges, ClientRows
from holdfast.model.clock import Clock
from holdfast.model.time import MINUTE_US, SECOND_US

_log = structlog.get_logger()

_LOOKED_AT_US: Final = MINUTE_US
_WAIT_S: Final = 2.0
_OFFLINE_US: Final = 10 * SECOND_US
_PAGE: Final = 1000


class ClientWatch:
    """Clients of a broker, as far as somebody wants to see them."""

    def __init__(self, watch: Callable[[bool], None], history: HistoryLink, clock: Clock) -> None:
        """`watch` has the broker push clients, or not any more."""
        self._watch: Final = watch
        self._history: Final = history
        self._clock: Final = clock
        self._table: Final = ClientTable()
        self._looked_us: int | None = None
        self._complete: Final = asyncio.Event()
        self._as_of_us: int | None = None
        self._offline_as_of_us: int | None = None
        self._offline_tried_us: int | None = None
        self._refreshing: asyncio.Task[None] | None = None

    # ---- the broker's news

    def begin(self) -> None:
        self._table.begin()

    def take_rows(self, rows: ClientRows) -> None:
        self._table.add(rows.rows)
        if rows.last:
            self._table.end()
            self._as_of_us = self._clock.wall_us()
            self._complete.set()

    def take_changes(self, changes: ClientChanges) -> None:
        self._table.remove(changes.gone)
        self._table.add(changes.rows)
        self._as_of_us = self._clock.wall_us()

    def tick(self, *, is_fresh: bool) -> None:
        """Once a second. A broker that is alive and says nothing of clients has nothing new to say."""
        if self._looked_us is None:
            return
        if self._clock.monotonic_us() - self._looked_us > _LOOKED_AT_US:
            self._looked_us = None
            self._complete.clear()
            self._watch(False)
        elif is_fresh and self._complete.is_set():
            self._as_of_us = self._clock.wall_us()

    # ---- pages

    async def page(self, query: ClientQuery, *, is_connected: bool) -> dict[str, Any]:
        """A page of clients. Without a broker, those that were known last."""
        await self._look(offline=query.state in ("", "offline"), is_connected=is_connected)
        page = self._table.page(query)
        return {
            "as_of_us": self._as_of_us,
            "offline_as_of_us": self._offline_as_of_us,
            "complete": self._table.is_complete and (self._complete.is_set() or not is_connected),
            "total": page.total,
            "matched": page.matched,
            "items": page.rows,
            "next_cursor": page.next_cursor,
        }

    async def find(self, session_ids: Iterable[str], *, is_connected: bool) -> dict[str, bool]:
        """Which of these sessions there are, and whether each is connected."""
        await self._look(offline=True, is_connected=is_connected)
        return self._table.find(session_ids)

    async def _look(self, *, offline: bool, is_connected: bool) -> None:
        """Have the table filled, as far as that is possible in time."""
        self._looked_us = self._clock.monotonic_us()
        self._watch(True)
        waits = [self._read_offline()] if offline else []
        if is_connected:
            waits.append(self._snapshot())
        await asyncio.gather(*waits)

    async def close(self) -> None:
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)
        self._table.close()

    async def _snapshot(self) -> None:
        try:
            async with asyncio.timeout(_WAIT_S):
                await self._complete.wait()
        except TimeoutError:
            return

    async def _read_offline(self) -> None:
        """Begin to read offline sessions if they are old; wait only if there are none yet."""
        if not self._history.has_past:
            return
        now_us = self._clock.monotonic_us()
        is_due = self._offline_tried_us is None or now_us - self._offline_tried_us > _OFFLINE_US
        if is_due and (self._refreshing is None or self._refreshing.done()):
            self._offline_tried_us = now_us
            self._refreshing = asyncio.create_task(self._refresh_offline())
        if self._offline_as_of_us is None and self._refreshing is not None:
            await asyncio.wait([self._refreshing], timeout=_WAIT_S)

    async def _refresh_offline(self) -> None:
        try:
            await self._read_sessions()
        except ProblemError as error:
            _log.debug("offline sessions cannot be listed", why=error.detail)

    async def _read_sessions(self) -> None:
        table = self._table
        table.begin_offline()
        cursor: str | None = ""
        while cursor is not None:
            parameters = [("limit", str(_PAGE)), *([("cursor", cursor)] if cursor else [])]
            answer = await self._history.get("/sessions", parameters)
            table.add_offline(answer["sessions"])
            cursor = answer.get("next_cursor")
        table.end_offline()
        self._offline_as_of_us = self._clock.wall_us()
