"""Retained messages whose records cannot be read: each is counted and logged once, however often it is asked for."""

from typing import Final

import structlog

_log = structlog.get_logger()

#: Records that are told apart; from then on no other is counted.
_MAX_RECORDS: Final = 10_000


class UnreadableRecords:
    """Records of one store that could not be decoded since the start."""

    def __init__(self) -> None:
        #: Hashes of their keys: a key may be as long as a topic.
        self._seen: Final[set[int]] = set()

    def note(self, vnode: int, key: bytes, why: str) -> None:
        """A record was skipped. On a single node there is the vnode 0 alone."""
        seen = hash((vnode, key))
        if seen not in self._seen and len(self._seen) < _MAX_RECORDS:
            self._seen.add(seen)
            _log.error("a retained message cannot be read and is skipped", why=why)

    def count(self) -> int:
        return len(self._seen)
