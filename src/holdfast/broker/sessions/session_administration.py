"""What an administrator does to a session: end it, or empty its queue. Both leave events that say so."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from holdfast.broker.sessions.sessions import BrokerSessions
from holdfast.broker.sessions.slices import SLICE
from holdfast.durable.log import NO_END
from holdfast.durable.queues.log_queue import LogQueue
from holdfast.durable.queues.memory_queue import MemoryQueue
from holdfast.durable.sessions.session_store import SessionStore, keep_progress
from holdfast.exchange.client import BrokerClient
from holdfast.exchange.drops import DROP_PURGED
from holdfast.exchange.exchange import Exchange
from holdfast.model.clock import Clock
from holdfast.model.errors import PermanentError, TransientError
from holdfast.records.session.progress import Progress

#: At most how many messages a session is owed that was sent everything up to these positions, by shard.
OwedBound = Callable[[Mapping[int, int]], int]

ENDED: Final = "an administrator ended the session"
_AT_MOST: Final = "at most so many, of all topics"


class SessionAdministration:
    """Changes sessions of this node. Requires: the broker's event loop.

    TransientError: it is not possible at the moment. PermanentError: it is not possible for this session; the text
    says what is. In both cases nothing was done.
    """

    def __init__(self, exchange: Exchange, sessions: BrokerSessions, stored: SessionStore, clock: Clock) -> None:
        self._exchange: Final = exchange
        self._state: Final = exchange.state
        self._log_decides: Final = exchange.settings.log_decides
        self._sessions: Final = sessions
        self._stored: Final = stored
        self._clock: Final = clock

    def check_end(self, session_id: str) -> bool:
        """Whether there is a session that can be ended. Before its connection is: that must not go for nothing."""
        self._check_not_opening(session_id)
        if not self._exists(session_id):
            return False
        if self._log_decides:
            raise PermanentError(
                "in a cluster a session ends when its expiry interval has passed; `holdfast sessions kick` closes its "
                "connection, and a CONNECT with clean start ends it"
            )
        return True

    def end(self, session_id: str) -> None:
        """End a session that has no connection: store, queue and subscriptions go, a will that waits is published.

        Requires: `check_end` said so, in the same loop iteration.
        """
        client = self._sessions.clients.get(session_id)
        if client is not None:
            self._sessions.end(client, ENDED)
        else:
            record = self._sessions.record(session_id)
            if record is None:
                return
            self._sessions.wills.publish_waiting(session_id)  # [MQTT-3.1.3-9]
            self._sessions.end_stored(session_id, record, ENDED)
        self._state.schedule()

    async def purge(self, session_id: str, owed_bound: OwedBound | None) -> int | None:
        """Drop everything that waits in the queue of a session now; at most so many messages, None without a session.

        What is in flight stays in flight, so that packet ids of QoS 1 and 2 keep their meaning to the client.
        """
        self._check_not_opening(session_id)
        client = self._sessions.clients.get(session_id)
        if client is not None:
            return self._purge_client(client, owed_bound)
        if not self._exists(session_id):
            return None
        if self._log_decides:
            raise PermanentError("in a cluster the queue of a session is emptied at the node that it is connected to")
        return await self._purge_stored(session_id, owed_bound)

    def _exists(self, session_id: str) -> bool:
        if session_id in self._sessions.clients:
            return True
        record = self._sessions.record(session_id)
        return record is not None and not self._sessions.is_over(record)

    def _check_not_opening(self, session_id: str) -> None:
        if session_id in self._sessions.opening:
            raise TransientError("its client is connecting at the moment; try again in a second")

    def _purge_client(self, client: BrokerClient, owed_bound: OwedBound | None) -> int:
        queue = client.queue
        session_id = client.session.client_id
        if isinstance(queue, LogQueue):
            was_behind = not queue.at_end()
            sent = queue.sent()
            unlogged = queue.drop_unread()
            self._exchange.drops.lose(DROP_PURGED, session_id, unlogged, self._clock.wall_us())
            count = unlogged + (self._note_skipped(session_id, sent, owed_bound) if was_behind else 0)
        elif isinstance(queue, MemoryQueue):
            count = queue.drop_unread()
            self._exchange.drops.lose(DROP_PURGED, session_id, count, self._clock.wall_us())
        else:
            raise PermanentError(
                "its queue is kept by an external backend, which is told of single messages only; end the session "
                "instead (`holdfast sessions end`), and its queue goes with it"
            )
        self._sessions.save_progress(client)
        self._exchange.pump(client)
        return count

    async def _purge_stored(self, session_id: str, owed_bound: OwedBound | None) -> int:
        """The same for a session that has no object here: its stored progress moves to the present."""
        stored = self._stored.load(session_id, SLICE)
        while stored is not None and stored.load_on is not None:
            await asyncio.sleep(0)
            stored.load_on(SLICE)
        if stored is None or session_id in self._sessions.clients or session_id in self._sessions.opening:
            raise TransientError("its client has connected meanwhile; try again")
        if stored.record.queue:
            raise PermanentError(f"its queue is kept in {stored.record.queue!r}; end the session instead")
        progress = stored.progress or Progress({}, [], max(stored.inflight, default=0))
        present = self._exchange.delivered
        # A shard that its progress does not name is read from the first subscription on.
        began_us = min([record.since_us for record in stored.subscriptions.values()], default=NO_END)
        sent = {shard: progress.sent.get(shard, began_us - 1) for shard in present}
        count = self._note_skipped(session_id, sent, owed_bound)
        moved = Progress({**progress.sent, **present}, progress.unacknowledged, progress.last_packet_id)
        self._state.step(keep_progress(session_id, moved))
        self._state.schedule()
        return count

    def _note_skipped(self, session_id: str, sent: Mapping[int, int], owed_bound: OwedBound | None) -> int:
        """Count and note what lies between positions that were sent and the present; at most how many messages."""
        drops = self._exchange.drops
        present = self._exchange.delivered
        now_us = self._clock.wall_us()
        total = 0
        for shard, end_us in present.items():
            sent_us = sent.get(shard, 0)
            if sent_us >= end_us:
                continue
            count = 1 if owed_bound is None else owed_bound({**present, shard: sent_us})
            event = drops.note(DROP_PURGED, session_id, b"", now_us, count, shard, sent_us + 1, _AT_MOST)
            event.to_us = max(event.to_us, end_us)
            drops.counters.drop(DROP_PURGED, count)
            total += count
        return total
