"""Keys in the order of the time at which something is due, such as the end of a session or of a retained message.

What is due is looked for once a second, from the first key on, and goes at the front. Each deleted key leaves a
tombstone that RocksDB passes over until a compaction removes it, so a look from the very beginning would visit all of
them again.
"""

from collections.abc import Callable, Iterator

#: The keys of [lo, hi) and their values, in order.
ScanItems = Callable[[bytes, bytes], Iterator[tuple[bytes, bytes]]]


class DueKeys:
    """Remembers where the first key can be.

    1. No key of the list is below `_first`.
    """

    def __init__(self, lo: bytes) -> None:
        self._first = lo

    def put(self, key: bytes) -> None:
        """A key is about to be stored."""
        self._first = min(self._first, key)

    def below(self, scan: ScanItems, hi: bytes, *, is_written: bool) -> Iterator[bytes]:
        """The keys below `hi`. `is_written`: everything that was put is in the database."""
        first = True
        for key, _value in scan(self._first, hi):
            if first and is_written:
                self._first = key
            first = False
            yield key
        if first and is_written and hi > self._first:
            self._first = hi
