"""Sessions after a start of the broker: those that were connected are not any more, and wills go on waiting."""

import asyncio
from typing import Final

import structlog

from holdfast.broker.sessions.sessions import BrokerSessions
from holdfast.durable.sessions.session_store import KeepSession, SessionStore
from holdfast.exchange.exchange import Exchange
from holdfast.model.clock import Clock
from holdfast.model.time import SECOND_US
from holdfast.records.session.session_record import SessionRecord
from holdfast.session.state import will_delay_s

_log = structlog.get_logger()

#: How long a client that was connected when the broker crashed has to return before its will is published.
GRACE_S: Final = 30
#: Sessions looked at in one go.
_PAGE: Final = 200
#: Sessions between two log lines on how many were restored; a multiple of a page.
_LOGGED: Final = 100_000


class SessionRecovery:
    """Brings stored sessions up to date, before a client connects."""

    def __init__(self, exchange: Exchange, sessions: BrokerSessions, stored: SessionStore, clock: Clock) -> None:
        self._exchange: Final = exchange
        self._state: Final = exchange.state
        self._sessions: Final = sessions
        self._wills: Final = sessions.wills
        self._stored: Final = stored
        self._clock: Final = clock

    async def run(self) -> None:
        """First what is stored, then the sessions that have to be in memory."""
        self._recover()
        await self._restore_external()

    def _recover(self) -> None:
        now_us = self._clock.wall_us()
        after_us, after = 0, ""
        while page := self._stored.waiting_wills(after_us, after, _PAGE):
            for due_us, client_id in page:
                self._wait_again(client_id, max(0, due_us - now_us + SECOND_US - 1) // SECOND_US)
            after_us, after = page[-1]
        last = ""
        while clients := self._stored.connected(last, _PAGE):
            for client_id in clients:
                self._was_connected(client_id, now_us)
            last = clients[-1]
        self._state.schedule()

    def _wait_again(self, client_id: str, left_s: int) -> None:
        record = self._sessions.record(client_id)
        if record is not None and record.will is not None:
            self._wills.leave(client_id, record.will, left_s, lambda: self._sessions.will_due(client_id))
            if left_s == 0:
                self._state.step(KeepSession(client_id, record.without_will(), record))

    def _was_connected(self, client_id: str, now_us: int) -> None:
        """The broker ended before its connection did: it has a while to return before its will is published."""
        record = self._sessions.record(client_id)
        if record is None:
            return
        will = record.will
        if will is None and record.expiry_s == 0:
            self._sessions.drop_stored(client_id, record)
            return
        if will is not None:
            wait_s = max(will_delay_s(will, record.expiry_s), GRACE_S)
            self._wills.leave(client_id, will, wait_s, lambda: self._sessions.will_due(client_id))
        offline = SessionRecord(
            expiry_s=record.expiry_s,
            disconnected_us=now_us,
            will=will,
            cut_off=True,
            queue=record.queue,
            begun=record.begun,
            user=record.user,
        )
        self._state.step(KeepSession(client_id, offline, record))

    async def _restore_external(self) -> None:
        """Sessions with an external queue are put into the matcher."""
        self._exchange.run_iteration()  # what `_recover` has changed is read below
        count, last = 0, ""
        while page := self._stored.with_external_queue(last, _PAGE):
            for client_id in page:
                self._sessions.restore_external(client_id)
            count, last = count + len(page), page[-1]
            if count % _LOGGED == 0 or len(page) < _PAGE:
                _log.info("sessions with external queues are restored", count=count)
            await asyncio.sleep(0)
        self._state.schedule()
