"""Places for password checks, and the queue in front of them: fair by address, then by user name.

    address A   alice: 1 2 3    bob: 4            served: 1, 5, 4, 6, 2, 7, 3
    address B   alice: 5 6 7

Rules:
1. At most `places` checks run at a time, and at most `max_waiting` wait, `max_of_address` of them of one address.
2. A place that gets free goes to the next address in turn, there to the next user name in turn, there to the oldest.
3. When the queue is full, a newcomer takes the place of the newest check of the address that has the most waiting, and
   of the user name that has the most there, unless that is no more than it would have itself; then it is turned away.
   When its address has no more room, the same holds among the user names of this address.
   So no address keeps another one out, and no user name another one of its address.
"""

import asyncio
from collections import deque
from typing import Final

from holdfast.model.errors import MisuseError

_Line = deque["asyncio.Future[bool]"]


class CheckQueue:
    """Who may have a password checked now."""

    def __init__(self, places: int, max_waiting: int, max_of_address: int) -> None:
        if places < 1:
            raise MisuseError("without a place for a password check no user could come in")
        self._free = places
        self._max_waiting: Final = max_waiting
        self._max_of_address: Final = max_of_address
        #: By address and user name; the first of each is the next in turn.
        self._waiting: Final[dict[str, dict[str, _Line]]] = {}
        self._count = 0

    def __len__(self) -> int:
        """How many wait."""
        return self._count

    async def enter(self, address: str, user: str) -> bool:
        """Wait for a place; False if there is no room to wait. After True, `leave` has to be called."""
        if self._free:
            self._free -= 1
            return True
        full = self._count >= self._max_waiting or self._count_of(address) >= self._max_of_address
        if full and not self._make_room(address, user):
            return False
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(address, {}).setdefault(user, deque()).append(turn)
        self._count += 1
        try:
            return await turn
        except asyncio.CancelledError:
            line = self._waiting.get(address, {}).get(user, ())
            if turn in line:
                self._waiting[address][user].remove(turn)
                self._removed(address, user)
            elif not turn.cancelled() and turn.result():
                self.leave()
            raise

    def leave(self) -> None:
        """A place is free: the next one gets it."""
        while self._count:
            address, lines = next(iter(self._waiting.items()))
            user, line = next(iter(lines.items()))
            turn = line.popleft()
            # To the end: others come first now.
            lines[user] = lines.pop(user)
            self._waiting[address] = self._waiting.pop(address)
            self._removed(address, user)
            if not turn.done():  # else its client was cancelled, and does not know of it yet
                turn.set_result(True)
                return
        self._free += 1

    def _make_room(self, address: str, user: str) -> bool:
        largest = max(self._waiting, key=self._count_of)
        own_count = self._count_of(address)
        own = self._waiting.get(address, {})
        if own_count >= self._max_of_address or self._count_of(largest) <= own_count + 1:
            largest = address
        lines = self._waiting.get(largest, {})
        if not lines:
            return False
        name = max(lines, key=lambda name: len(lines[name]))
        if largest == address and len(lines[name]) <= len(own.get(user, ())) + 1:
            return False
        turn = lines[name].pop()
        if not turn.done():
            turn.set_result(False)
        self._removed(largest, name)
        return True

    def _count_of(self, address: str) -> int:
        return sum(map(len, self._waiting.get(address, {}).values()))

    def _removed(self, address: str, user: str) -> None:
        self._count -= 1
        lines = self._waiting[address]
        if not lines[user]:
            del lines[user]
        if not lines:
            del self._waiting[address]
