"""All backends of external queues that this broker uses: started, brought up to date after a crash, stopped."""

import asyncio
from typing import Final

import structlog

from holdfast.broker.deadlines import Deadlines
from holdfast.broker.external.append_worker import AppendWorker
from holdfast.broker.stores import Stores
from holdfast.durable.queues.external_queue import QueueBackend
from holdfast.durable.queues.outbox import OutboxRecord, QueueDrop
from holdfast.exchange.drops import QUEUES_AWAY, QUEUES_BACK
from holdfast.exchange.exchange import Exchange
from holdfast.model.clock import Clock

_log = structlog.get_logger()

#: Rounds of the loop that a stopping broker gives its queues, and the pause in each.
_LAST_ROUNDS: Final = 100
_LAST_PAUSE_S: Final = 0.02


class QueueBackends:
    """The append workers, by the names of their backends."""

    def __init__(self, exchange: Exchange, stores: Stores, clock: Clock, deadlines: Deadlines) -> None:
        self._external: Final = exchange.external
        self._drops: Final = exchange.drops
        self._outbox: Final = stores.outbox
        self._clock: Final = clock
        self.workers: Final = {
            name: AppendWorker(
                exchange.external, exchange.external.backends[name], store, clock, deadlines, self._note_change
            )
            for name, store in stores.queue_backends.items()
        }

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Requires: every session that has a queue is there."""
        leftover = self._outbox.leftover()
        if leftover:
            _log.info("messages are appended to their queues once more", count=len(leftover))
        for change in leftover:
            if isinstance(change, OutboxRecord):
                self._external.append_again(change)
            elif isinstance(change, QueueDrop):
                self.drop(change)
        for worker in self.workers.values():
            worker.start(loop)

    def drop(self, change: QueueDrop) -> None:
        """Remove the queue of a session that has ended, unless a new session has it: that skips what is not its own."""
        worker = self.workers.get(change.backend)
        if worker is None or self._external.uses(change.client_id):
            self._external.dropped([change])
        else:
            worker.drop(change)

    async def settle(self) -> None:
        """Before a stop: let the stores hear what there is to say, but not for long."""
        for _round in range(_LAST_ROUNDS):
            for worker in self.workers.values():
                worker.acknowledge_now()
            here = [worker for worker in self.workers.values() if not worker.backend.away]
            if all(worker.idle() for worker in here) and (not self._external.waiting or len(here) == 0):
                break
            await asyncio.sleep(_LAST_PAUSE_S)
        self._external.trim_outbox()

    async def stop(self) -> None:
        for worker in self.workers.values():
            await worker.stop()

    def _note_change(self, backend: QueueBackend, why: str) -> None:
        """A backend is away, or back: logged once for each change."""
        now_us = self._clock.wall_us()
        if why:
            _log.warning("a queue backend is away; messages for it wait", backend=backend.name, why=why)
            self._drops.note(QUEUES_AWAY, "", b"", now_us, detail=f"{backend.name}: {why}")
        else:
            _log.info("a queue backend is back", backend=backend.name)
            self._drops.note(QUEUES_BACK, "", b"", now_us, detail=backend.name)
