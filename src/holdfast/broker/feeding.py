"""All homes of client queues that this broker uses: started, brought up to date after a crash, stopped."""

import asyncio
from typing import Final

import structlog

from holdfast.broker.deadlines import Deadlines
from holdfast.broker.feeder import Feeder
from holdfast.broker.stores import Stores
from holdfast.durable.outbox import OutboxRecord, QueueDrop
from holdfast.durable.outside_queue import QueueHome
from holdfast.exchange.drops import QUEUES_AWAY, QUEUES_BACK
from holdfast.exchange.exchange import Exchange
from holdfast.model.clock import Clock

_log = structlog.get_logger()

#: Rounds of the loop that a stopping broker gives its queues, and the pause in each.
_LAST_ROUNDS: Final = 100
_LAST_PAUSE_S: Final = 0.02


class Feeding:
    """The feeders, by the names of their homes."""

    def __init__(self, exchange: Exchange, stores: Stores, clock: Clock, deadlines: Deadlines) -> None:
        self._exchange: Final = exchange
        self._outbox: Final = stores.outbox
        self._clock: Final = clock
        outside = exchange.outside
        # The clock as well as what is stored: a restored backup has an old ceiling, and queues ignore old numbers.
        outside.start(max(stores.outbox.ceiling() + 1, clock.wall_us()))
        self.feeders: Final = {
            name: Feeder(outside.add_home(name), store, outside, clock, deadlines, self._changed)
            for name, store in stores.queue_homes.items()
        }

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Requires: every session that has a queue is there."""
        outside = self._exchange.outside
        leftover = self._outbox.leftover()
        if leftover:
            _log.info("messages are given to their queues once more", count=len(leftover))
        for change in leftover:
            if isinstance(change, OutboxRecord):
                outside.again(change)
            elif isinstance(change, QueueDrop):
                self.drop(change)
        for feeder in self.feeders.values():
            feeder.start(loop)

    def drop(self, change: QueueDrop) -> None:
        """Remove the queue of a session that has ended, unless a new one has it: that leaves out what is not its."""
        feeder = self.feeders.get(change.home)
        if feeder is None or self._exchange.outside.uses(change.client_id):
            self._exchange.outside.dropped([change])
        else:
            feeder.drop(change)

    def sweep(self) -> None:
        """What is done leaves the outbox."""
        self._exchange.outside.tidy()

    async def settle(self) -> None:
        """Before a stop: let the stores hear what there is to say, but not for long."""
        for _round in range(_LAST_ROUNDS):
            for feeder in self.feeders.values():
                feeder.tell_now()
            here = [feeder for feeder in self.feeders.values() if not feeder.home.away]
            if all(feeder.idle() for feeder in here) and (not self._exchange.outside.waiting or len(here) == 0):
                break
            await asyncio.sleep(_LAST_PAUSE_S)
        self._exchange.outside.tidy()

    async def stop(self) -> None:
        for feeder in self.feeders.values():
            await feeder.stop()

    def _changed(self, home: QueueHome, why: str) -> None:
        """Said once for each change."""
        now_us = self._clock.wall_us()
        if why:
            _log.warning("a home of client queues is away; messages for it wait", home=home.name, why=why)
            self._exchange.drops.note(QUEUES_AWAY, "", b"", now_us, detail=f"{home.name}: {why}")
        else:
            _log.info("a home of client queues is back", home=home.name)
            self._exchange.drops.note(QUEUES_BACK, "", b"", now_us, detail=home.name)
