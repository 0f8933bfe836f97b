"""A set of serials, kept as ranges: acknowledgements come almost in order, so that a few ranges hold many of them."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Final

from holdfast.model.errors import PermanentError

#: How an empty set is written.
_NONE: Final = "-"


class Serials:
    """1. Ranges `[_first[i], _last[i]]` are in order, and between two of them is at least one serial."""

    def __init__(self, serials: Iterable[int] = ()) -> None:
        self._first: Final[list[int]] = []
        self._last: Final[list[int]] = []
        for serial in serials:
            self.add(serial)

    def __contains__(self, serial: int) -> bool:
        index = bisect_right(self._first, serial) - 1
        return index >= 0 and serial <= self._last[index]

    def __iter__(self) -> Iterator[int]:
        for first, last in zip(self._first, self._last, strict=True):
            yield from range(first, last + 1)

    def __len__(self) -> int:
        return sum(self._last) - sum(self._first) + len(self._first)

    def __bool__(self) -> bool:
        return bool(self._first)

    def add(self, serial: int) -> None:
        index = bisect_right(self._first, serial)
        if index and serial <= self._last[index - 1]:
            return
        joins_before = index > 0 and self._last[index - 1] == serial - 1
        joins_after = index < len(self._first) and self._first[index] == serial + 1
        if joins_before and joins_after:
            self._last[index - 1] = self._last.pop(index)
            self._first.pop(index)
        elif joins_before:
            self._last[index - 1] = serial
        elif joins_after:
            self._first[index] = serial
        else:
            self._first.insert(index, serial)
            self._last.insert(index, serial)

    def discard(self, serial: int) -> None:
        index = bisect_right(self._first, serial) - 1
        if index < 0 or serial > self._last[index]:
            return
        first, last = self._first.pop(index), self._last.pop(index)
        if serial < last:
            self._first.insert(index, serial + 1)
            self._last.insert(index, last)
        if first < serial:
            self._first.insert(index, first)
            self._last.insert(index, serial - 1)

    def after(self, serial: int) -> int:
        """The first serial from `serial` on that is not in the set."""
        index = bisect_right(self._first, serial) - 1
        return self._last[index] + 1 if index >= 0 and serial <= self._last[index] else serial

    def forget_below(self, serial: int) -> None:
        while self._first and self._first[0] < serial:
            if self._last[0] >= serial:
                self._first[0] = serial
                return
            del self._first[0], self._last[0]

    def __str__(self) -> str:
        parts = [str(a) if a == b else f"{a}-{b}" for a, b in zip(self._first, self._last, strict=True)]
        return ",".join(parts) or _NONE

    @classmethod
    def parse(cls, text: str) -> "Serials":
        """What `str` gave; PermanentError if no set looks like that."""
        found = cls()
        if text == _NONE:
            return found
        try:
            for part in text.split(","):
                first, _, last = part.partition("-")
                found._first.append(int(first))
                found._last.append(int(last or first))
        except ValueError:
            raise PermanentError(f"{text[:80]!r} is no list of serials") from None
        pairs = zip([-1, *found._last], found._first, strict=False)
        if any(first <= before + 1 for before, first in pairs) or any(map(int.__gt__, found._first, found._last)):
            raise PermanentError(f"serials are not in order: {text[:80]!r}")
        return found
