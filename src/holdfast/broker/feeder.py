"""Talks to one home of client queues: what has gathered goes out in one call, answers go back to the path of messages.

    appends     one call at a time, for all clients that have something; what gathers meanwhile is the next one
    reads       one per client at most, a bounded number at once
    forgetting  what clients have acknowledged or released, gathered for a moment
    removing    queues of sessions that have ended, between appends: a new session's messages come behind it

A home that is away is tried again with growing pauses. Meanwhile nothing is asked of it, and everything waits.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Final

import structlog

from holdfast.broker.deadlines import Deadline, Deadlines
from holdfast.durable.outbox import QueueDrop
from holdfast.durable.outside_queue import OutsideQueue, QueueHome, queue_name
from holdfast.durable.queue_store import QueueStore
from holdfast.exchange.outside import Outside
from holdfast.model.clock import Clock
from holdfast.model.errors import HoldfastError, PermanentError

_log = structlog.get_logger()

#: Reads of one home that are under way at once.
_READS: Final = 32
#: How long acknowledgements gather before the store is told. They may come again after a crash, with DUP.
_GATHER_US: Final = 100_000
#: … and how many of them are enough: until the store knows, they count toward the limits of their queues.
_ENOUGH: Final = 200
#: The first pause when a home is away, and the longest.
_PAUSE_US: Final = 100_000
_LONGEST_PAUSE_US: Final = 5_000_000
#: Between two looks for what has expired.
_SWEEP_US: Final = 10_000_000


class Feeder:
    """One home and its store.

    1. At most one append is under way.
    2. While it pauses, nothing is asked of the store.
    3. A queue that is to be removed is not read, and no serial of it is acknowledged, until it is gone: the next one of
       its client has the same serials.
    """

    def __init__(
        self,
        home: QueueHome,
        store: QueueStore,
        outside: Outside,
        clock: Clock,
        deadlines: Deadlines,
        changed: Callable[[QueueHome, str], None],
    ) -> None:
        self.home: Final = home
        self.store: Final = store
        self._outside: Final = outside
        self._clock: Final = clock
        self._deadlines: Final = deadlines
        #: Told when the home goes away (why), and when it is back (empty).
        self._changed: Final = changed
        self._drops: Final[list[QueueDrop]] = []
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._due = False
        self._appending = False
        self._reading = 0
        self._telling: Deadline | None = None
        self._told = True
        self._pause: Deadline | None = None
        self._pause_us = _PAUSE_US
        #: The same for some of its queues.
        self._some: Deadline | None = None
        self._some_us = _PAUSE_US
        home.work = self.work

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._deadlines.after(_SWEEP_US, self._sweep_soon)
        self.work()

    async def stop(self) -> None:
        """What is under way is not waited for: the outbox knows what may not have arrived."""
        self._loop = None
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def idle(self) -> bool:
        """Whether nothing is left that could be told to the store now."""
        return not (self._tasks or self._drops or self.home.acknowledged or self.home.released or self._due)

    def drop(self, change: QueueDrop) -> None:
        """The end of a session is committed: remove its queue."""
        self._drops.append(change)
        self.work()

    def work(self) -> None:
        """There is something to do: at the end of this turn, with whatever else comes until then."""
        if not self._due and self._loop is not None:
            self._due = True
            self._loop.call_soon(self._go)

    def tell_now(self) -> None:
        """Do not wait for more acknowledgements."""
        if self._telling is not None:
            self._tell()

    def _go(self) -> None:
        self._due = False
        if self._loop is None or self._pause is not None:
            return
        if not self._appending and (self._drops or self._outside.has_packs(self.home)):
            self._appending = True
            self._spawn(self._append())
        going = {queue_name(change.client_id) for change in self._drops}
        for queue in [queue for queue in self.home.reads if queue.name not in going]:
            if self._reading >= _READS:
                break
            del self.home.reads[queue]
            self._reading += 1
            self._spawn(self._read(queue))
        if self._told and self.home.gathered >= _ENOUGH:
            self._tell()
        elif (self.home.acknowledged or self.home.released) and self._telling is None and self._told:
            self._telling = self._deadlines.after(_GATHER_US, self._tell)

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        assert self._loop is not None
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("a bug came up while queues were fed", home=self.home.name, exc_info=task.exception())

    # ---- calls

    async def _append(self) -> None:
        try:
            while self._pause is None:
                if self._drops:
                    if not self._told:
                        break  # what is being acknowledged may be of these queues; it goes on behind that
                    await self._remove()
                given = self._outside.packs(self.home)
                if not given:
                    break
                try:
                    answers = await self.store.append([pack for _line, pack in given])
                except Exception as error:
                    self._outside.failed(given)
                    self._go_away(error)
                    break
                self._come_back(whole=self._outside.appended(self.home, given, answers))
        except Exception as error:
            self._go_away(error)
        finally:
            self._appending = False
        if self._told or not self._drops:  # else it goes on when that is told
            self.work()

    async def _remove(self) -> None:
        drops = list(self._drops)
        await self.store.drop([queue_name(change.client_id) for change in drops])
        del self._drops[: len(drops)]
        self._outside.dropped(drops)

    async def _read(self, queue: OutsideQueue) -> None:
        try:
            limit = queue.page_limit()
            after = queue.page_after()
            entries = await self.store.read(queue.name, after, limit)
            if after and not entries:
                await self._check_end(queue, after)
        except PermanentError as error:
            client = self._outside.client_of(queue)
            queue.page_failed()
            self.home.reads.pop(queue, None)
            if client is not None:
                self._outside.set_aside(client, error)
        except Exception as error:
            queue.page_failed()
            self._go_away(error)
        else:
            self._come_back()
            self._outside.page(queue, entries, limit)
        finally:
            self._reading -= 1
        self.work()

    async def _check_end(self, queue: OutsideQueue, after: int) -> None:
        """Nothing behind a place may also mean that the queue never came so far: it is not the one that was left."""
        serial, _number = await self.store.last(queue.name)
        if serial < after:
            raise PermanentError("its home has another queue than the one that was left there")

    def _tell(self) -> None:
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        if self._loop is not None and self._told and self._pause is None and not (self._drops and self._appending):
            self._told = False
            self._spawn(self._forget())

    async def _forget(self) -> None:
        """Tell the store what clients have, or have begun to have."""
        home = self.home
        released = dict(home.released)
        done = dict(home.acknowledged)
        home.released.clear()
        home.acknowledged.clear()
        home.gathered = 0
        begun = {queue: queue.incarnation for queue in (*released, *done)}
        try:
            while released:
                queue, serials = next(iter(released.items()))
                with suppress(PermanentError):  # it shows when it is read
                    await self.store.release(queue.name, serials)
                del released[queue]
            done = {queue: serials for queue, serials in done.items() if queue.incarnation == begun[queue]}
            if done:
                await self._acknowledge(done)
        except Exception as error:
            self._go_away(error)
        finally:
            self._told = True
            for queue, serials in released.items():
                if not queue.ended and queue.incarnation == begun[queue]:
                    home.released[queue] = serials + home.released.get(queue, [])
            for queue, serials in done.items():
                if not queue.ended and queue.incarnation == begun[queue]:
                    home.acknowledged[queue] = serials + home.acknowledged.get(queue, [])
        self.work()

    async def _acknowledge(self, done: dict[OutsideQueue, list[int]]) -> None:
        """Takes what is told, or cannot be told, out of `done`."""
        begun = {queue: queue.incarnation for queue in done}
        try:
            await self.store.acknowledge([(queue.name, serials) for queue, serials in done.items()])
        except PermanentError:
            for queue, serials in list(done.items()):  # one of them cannot be used: it shows when it is read
                with suppress(PermanentError):
                    await self.store.acknowledge([(queue.name, serials)])
                del done[queue]
                if queue.incarnation == begun[queue]:
                    queue.confirmed(serials)
        else:
            for queue, serials in done.items():
                if queue.incarnation == begun[queue]:
                    queue.confirmed(serials)
            done.clear()

    # ---- away and back

    def _go_away(self, error: Exception) -> None:
        if not isinstance(error, HoldfastError):
            _log.error("a store failed in a way of its own", home=self.home.name, exc_info=error)
        if not self.home.away:
            self.home.away = True
            self._changed(self.home, str(error))
        self._rest()

    def _rest(self) -> None:
        """Try again a little later."""
        if self._pause is None:
            self._pause = self._deadlines.after(self._pause_us, self._try_again)
            self._pause_us = min(2 * self._pause_us, _LONGEST_PAUSE_US)

    def _try_some_again(self) -> None:
        self._some = None
        self._outside.rested(self.home)
        self.work()

    def _try_again(self) -> None:
        self._pause = None
        self._outside.rested(self.home)
        self.work()

    def _come_back(self, *, whole: bool = True) -> None:
        """The store answers; if not `whole`, some of its queues cannot be used for now, and only these pause."""
        if not whole and self._some is None:
            _log.warning("some client queues cannot be reached", home=self.home.name, again_in_s=self._some_us / 1e6)
            self._some = self._deadlines.after(self._some_us, self._try_some_again)
            self._some_us = min(2 * self._some_us, _LONGEST_PAUSE_US)
        elif whole and self._some is None:
            self._some_us = _PAUSE_US
        self._pause_us = _PAUSE_US
        if self.home.away:
            self.home.away = False
            self._changed(self.home, "")

    # ---- upkeep

    def _sweep_soon(self) -> None:
        if self._loop is not None:
            self._deadlines.after(_SWEEP_US, self._sweep_soon)
            if self._pause is None:
                self._spawn(self._sweep())

    async def _sweep(self) -> None:
        try:
            await self.store.sweep(self._clock.wall_us())
        except HoldfastError as error:
            _log.warning("expired messages were not removed", home=self.home.name, why=str(error))
