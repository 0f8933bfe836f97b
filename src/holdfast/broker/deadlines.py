"""Actions that are due at a time.

Deadlines    exact: one heap and one timer for all; half a kilobyte each
TimerWheel   for what is watched again and again, once per connection: all of one tick share a deadline
PaceTimer    the timer of the exchange: pumps clients to whom something is due
"""

import asyncio
import heapq
from collections.abc import Callable
from typing import Final, Generic, TypeVar

import structlog

from holdfast.exchange.client import BrokerClient
from holdfast.exchange.control import Timer
from holdfast.model.clock import Clock

_log = structlog.get_logger()

#: Below this many entries the heap is not worth tidying.
_FEW: Final = 64

#: How much later than asked for a round may come. Keep alive times are whole seconds, and half as much is added.
TICK_US: Final = 250_000

#: The longest wait at once. A client that is gone is kept in memory by its deadline, and no longer than this.
_LONGEST_US: Final = 60_000_000

Item = TypeVar("Item")


class Deadline:
    """One entry. A cancelled one stays in the heap until its time comes, or until most entries are cancelled."""

    __slots__ = ("_action", "_owner")

    def __init__(self, owner: "Deadlines", action: Callable[[], None]) -> None:
        self._owner: Final = owner
        self._action: Callable[[], None] | None = action

    def cancel(self) -> None:
        if self._action is not None:
            self._action = None
            self._owner.one_cancelled()

    def alive(self) -> bool:
        return self._action is not None

    def fire(self) -> None:
        action, self._action = self._action, None
        if action is not None:
            action()


class Deadlines:
    """Actions by the monotonic time at which they are due.

    1. Less than half of the entries are cancelled, unless there are few.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock: Final = clock
        self._heap: list[tuple[int, int, Deadline]] = []
        self._count = 0
        self._cancelled = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_us = 0

    def __len__(self) -> int:
        return len(self._heap)

    def now_us(self) -> int:
        """The time by which actions are due."""
        return self._clock.monotonic_us()

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to fire; what was asked for before waits for this."""
        self._loop = loop
        self._arm()

    def after(self, delay_us: int, action: Callable[[], None]) -> Deadline:
        """Call `action` when `delay_us` have passed."""
        deadline = Deadline(self, action)
        self._count += 1
        due_us = self._clock.monotonic_us() + max(0, delay_us)
        heapq.heappush(self._heap, (due_us, self._count, deadline))
        if self._timer is None or due_us < self._timer_us:
            self._arm()
        return deadline

    async def pause(self, delay_us: int) -> None:
        """Wait for so long."""
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        deadline = self.after(delay_us, lambda: None if over.done() else over.set_result(None))
        try:
            await over
        finally:
            deadline.cancel()

    def fire(self) -> None:
        """Run everything that is due. An action that fails is logged; the others run all the same."""
        now_us = self._clock.monotonic_us()
        while self._heap and self._heap[0][0] <= now_us:
            deadline = heapq.heappop(self._heap)[2]
            if not deadline.alive():
                self._cancelled -= 1
            try:
                deadline.fire()
            except Exception:
                _log.exception("an action that was due failed")
        self._arm()

    def one_cancelled(self) -> None:
        """Count a cancelled entry; tidy up when most of them are."""
        self._cancelled += 1
        if self._cancelled > _FEW and self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].alive()]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def stop(self) -> None:
        """Forget everything."""
        self._heap.clear()
        self._cancelled = 0
        self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._heap and self._loop is not None:
            self._timer_us = self._heap[0][0]
            delay_s = max(0, self._timer_us - self._clock.monotonic_us()) / 1_000_000
            self._timer = self._loop.call_later(delay_s, self.fire)


class TimerWheel(Generic[Item]):
    """Items to look at again at about a time: never earlier, and less than a tick later.

    1. An item is under the tick that `watch` gave for it, until that comes or `forget` is called.
    2. A tick without items has no deadline.
    """

    def __init__(self, deadlines: Deadlines, look: Callable[[Item], None]) -> None:
        self._deadlines: Final = deadlines
        self._look: Final = look
        self._ticks: Final[dict[int, tuple[int, set[Item], Deadline]]] = {}

    def __len__(self) -> int:
        return len(self._ticks)

    def watch(self, item: Item, now_us: int, delay_us: int) -> int:
        """Look at the item when `delay_us` have passed since `now_us`; the tick, by which it can be forgotten."""
        tick = -(-(now_us + delay_us) // TICK_US)
        entry = self._ticks.get(tick)
        if entry is None:
            deadline = self._deadlines.after(tick * TICK_US - now_us, lambda: self._come(tick))
            entry = self._ticks[tick] = (tick, set(), deadline)
        entry[1].add(item)
        return entry[0]  # one number for all, as each keeps it

    def forget(self, item: Item, tick: int) -> None:
        """Do not look at the item, if its tick has not come yet."""
        entry = self._ticks.get(tick)
        if entry is not None:
            _, items, deadline = entry
            items.discard(item)
            if not items:
                del self._ticks[tick]
                deadline.cancel()

    def _come(self, tick: int) -> None:
        """A tick has come. An item that fails is logged; the others are looked at all the same."""
        for item in self._ticks.pop(tick)[1]:
            try:
                self._look(item)
            except Exception:
                _log.exception("an action that was due failed")


class PaceTimer(Timer):
    """What paces wait with: one deadline for each client that something is due for.

    1. A client has one deadline at most: the earliest that it was asked for.
    """

    def __init__(self, clock: Clock, deadlines: Deadlines, pump: Callable[[BrokerClient], None]) -> None:
        self._clock: Final = clock
        self._deadlines: Final = deadlines
        self._pump: Final = pump
        self._waiting: Final[dict[BrokerClient, tuple[int, Deadline]]] = {}

    def wall_us(self) -> int:
        return self._clock.wall_us()

    def now_us(self) -> int:
        return self._clock.monotonic_us()

    def call_after(self, delay_us: int, action: Callable[[], None]) -> None:
        self._deadlines.after(delay_us, action)

    def pump_after(self, delay_us: int, client: BrokerClient) -> None:
        delay_us = min(max(delay_us, 0), _LONGEST_US)
        due_us = self.now_us() + delay_us
        known = self._waiting.get(client)
        if known is not None:
            if known[0] <= due_us:
                return
            known[1].cancel()
        self._waiting[client] = (due_us, self._deadlines.after(delay_us, lambda: self._come(client)))

    def _come(self, client: BrokerClient) -> None:
        self._waiting.pop(client, None)
        if client.channel is not None:
            self._pump(client)
