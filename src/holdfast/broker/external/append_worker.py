"""Talks to one queue backend: what has gathered goes out in one call, answers go back to the path of messages.

    appends     one call at a time, for all clients that have something; what gathers meanwhile is the next one
    reads       one per client at most, a bounded number at once
    forgetting  what clients have acknowledged or released, gathered for a moment
    removing    queues of sessions that have ended, between appends: a new session's messages come behind it

A backend that is away is tried again with growing pauses. Meanwhile nothing is asked of it, and everything waits.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Final

import structlog

from holdfast.broker.deadlines import Deadline, Deadlines
from holdfast.durable.queues.external_queue import ExternalQueue, QueueBackend, queue_name
from holdfast.durable.queues.outbox import QueueDrop
from holdfast.durable.queues.queue_store import AppendableQueues
from holdfast.exchange.external.external_queues import ExternalQueues
from holdfast.model.clock import Clock
from holdfast.model.errors import HoldfastError, PermanentError

_log = structlog.get_logger()

#: Reads of one backend that are under way at once.
_READS: Final = 32
#: How long acknowledgements gather before the store is told. They may come again after a crash, with DUP.
_GATHER_US: Final = 100_000
#: … and how many of them are enough: until the store knows, they count toward the limits of their queues.
_ENOUGH: Final = 200
#: The first pause when a backend is away, and the longest.
_RETRY_US: Final = 100_000
_LONGEST_RETRY_US: Final = 5_000_000
#: Between two looks for what has expired.
_SWEEP_US: Final = 10_000_000


class AppendWorker:
    """One backend and its store.

    1. At most one append is under way.
    2. While it pauses, nothing is asked of the store.
    3. A queue that is to be removed is not read, and no serial of it is acknowledged, until it is gone: the next one of
       its client has the same serials.
    """

    def __init__(
        self,
        external: ExternalQueues,
        backend: QueueBackend,
        store: AppendableQueues,
        clock: Clock,
        deadlines: Deadlines,
        on_change: Callable[[QueueBackend, str], None],
    ) -> None:
        self._external: Final = external
        self.backend: Final = backend
        self.store: Final = store
        self._clock: Final = clock
        self._deadlines: Final = deadlines
        #: Called when the backend goes away (with why), and when it is back (empty).
        self._on_change: Final = on_change
        self._drops: Final[list[QueueDrop]] = []
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._due = False
        self._appending = False
        self._reading = 0
        self._ack_deadline: Deadline | None = None
        self._acks_idle = True
        self._retry: Deadline | None = None
        self._retry_us = _RETRY_US
        #: The same for some of its queues.
        self._partial_retry: Deadline | None = None
        self._partial_retry_us = _RETRY_US
        backend.attach(self.work)

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
        return not (self._tasks or self._drops or self.backend.acknowledged or self.backend.released or self._due)

    def drop(self, change: QueueDrop) -> None:
        """The end of a session is committed: remove its queue."""
        self._drops.append(change)
        self.work()

    def work(self) -> None:
        """There is something to do: at the end of this loop iteration, with whatever else comes until then."""
        if not self._due and self._loop is not None:
            self._due = True
            self._loop.call_soon(self._start_calls)

    def acknowledge_now(self) -> None:
        """Do not wait for more acknowledgements."""
        if self._ack_deadline is not None:
            self._start_acknowledging()

    def _start_calls(self) -> None:
        self._due = False
        if self._loop is None or self._retry is not None:
            return
        if not self._appending and (self._drops or self._external.has_pending(self.backend)):
            self._appending = True
            self._spawn(self._append())
        going = {queue_name(change.client_id) for change in self._drops}
        for queue in [queue for queue in self.backend.reads if queue.name not in going]:
            if self._reading >= _READS:
                break
            del self.backend.reads[queue]
            self._reading += 1
            self._spawn(self._read(queue))
        if self._acks_idle and self.backend.gathered >= _ENOUGH:
            self._start_acknowledging()
        elif (self.backend.acknowledged or self.backend.released) and self._ack_deadline is None and self._acks_idle:
            self._ack_deadline = self._deadlines.after(_GATHER_US, self._start_acknowledging)

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        assert self._loop is not None
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("a bug came up in an append worker", backend=self.backend.name, exc_info=task.exception())

    # ---- calls

    async def _append(self) -> None:
        try:
            while self._retry is None:
                if self._drops:
                    if not self._acks_idle:
                        break  # what is being acknowledged may be of these queues; it goes on behind that
                    await self._remove()
                given = self._external.next_batches(self.backend)
                if not given:
                    break
                try:
                    answers = await self.store.append([batch for _appends, batch in given])
                except Exception as error:
                    self._external.failed(given)
                    self._went_away(error)
                    break
                self._has_answered(whole=self._external.appended(given, answers))
        except Exception as error:
            self._went_away(error)
        finally:
            self._appending = False
        if self._acks_idle or not self._drops:  # else it goes on when that is told
            self.work()

    async def _remove(self) -> None:
        drops = list(self._drops)
        await self.store.drop([queue_name(change.client_id) for change in drops])
        del self._drops[: len(drops)]
        self._external.dropped(drops)

    async def _read(self, queue: ExternalQueue) -> None:
        try:
            limit = queue.page_limit()
            after = queue.page_after()
            entries = await self.store.read(queue.name, after, limit)
            if after and not entries:
                # It may also mean that the queue never came so far: it is not the one that was left.
                serial, _number = await self.store.last(queue.name)
                if serial < after:
                    raise PermanentError("its backend has another queue than the one that was left there")
        except PermanentError as error:
            client = self._external.client_of(queue)
            queue.page_failed()
            self.backend.reads.pop(queue, None)
            if client is not None:
                self._external.reset_queue(client, error)
        except Exception as error:
            queue.page_failed()
            self._went_away(error)
        else:
            self._has_answered()
            self._external.page_read(queue, entries, limit)
        finally:
            self._reading -= 1
        self.work()

    def _start_acknowledging(self) -> None:
        if self._ack_deadline is not None:
            self._ack_deadline.cancel()
            self._ack_deadline = None
        if self._loop is not None and self._acks_idle and self._retry is None and not (self._drops and self._appending):
            self._acks_idle = False
            self._spawn(self._send_acknowledgements())

    async def _send_acknowledgements(self) -> None:
        """Tell the store what clients have, or have begun to have."""
        backend = self.backend
        released = dict(backend.released)
        done = dict(backend.acknowledged)
        backend.released.clear()
        backend.acknowledged.clear()
        backend.gathered = 0
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
            self._went_away(error)
        finally:
            self._acks_idle = True
            for queue, serials in released.items():
                if not queue.ended and queue.incarnation == begun[queue]:
                    backend.released[queue] = serials + backend.released.get(queue, [])
            for queue, serials in done.items():
                if not queue.ended and queue.incarnation == begun[queue]:
                    backend.acknowledged[queue] = serials + backend.acknowledged.get(queue, [])
        self.work()

    async def _acknowledge(self, done: dict[ExternalQueue, list[int]]) -> None:
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

    def _went_away(self, error: Exception) -> None:
        if not isinstance(error, HoldfastError):
            _log.error("a queue store failed with an unexpected error", backend=self.backend.name, exc_info=error)
        if not self.backend.away:
            self.backend.away = True
            self._on_change(self.backend, str(error))
        if self._retry is None:
            self._retry = self._deadlines.after(self._retry_us, self._retry_all)
            self._retry_us = min(2 * self._retry_us, _LONGEST_RETRY_US)

    def _retry_some(self) -> None:
        self._partial_retry = None
        self._external.try_again(self.backend)
        self.work()

    def _retry_all(self) -> None:
        self._retry = None
        self._external.try_again(self.backend)
        self.work()

    def _has_answered(self, *, whole: bool = True) -> None:
        """The store answers; if not `whole`, some of its queues cannot be used for now, and only these pause."""
        if not whole and self._partial_retry is None:
            _log.warning(
                "some client queues cannot be reached",
                backend=self.backend.name,
                again_in_s=self._partial_retry_us / 1e6,
            )
            self._partial_retry = self._deadlines.after(self._partial_retry_us, self._retry_some)
            self._partial_retry_us = min(2 * self._partial_retry_us, _LONGEST_RETRY_US)
        elif whole and self._partial_retry is None:
            self._partial_retry_us = _RETRY_US
        self._retry_us = _RETRY_US
        if self.backend.away:
            self.backend.away = False
            self._on_change(self.backend, "")

    # ---- upkeep

    def _sweep_soon(self) -> None:
        if self._loop is not None:
            self._deadlines.after(_SWEEP_US, self._sweep_soon)
            if self._retry is None:
                self._spawn(self._sweep())

    async def _sweep(self) -> None:
        try:
            await self.store.sweep(self._clock.wall_us())
        except HoldfastError as error:
            _log.warning("expired messages were not removed", backend=self.backend.name, why=str(error))
