"""The `timeline` layout: messages by time and nothing else.

    0x01 | position            9 bytes

The cheapest to write, and so simple that the others are tested against it. A replay reads everything in its range and
drops what does not match.
"""

from collections.abc import Iterator
from typing import Final

from holdfast.durable.changes import FamilyChanges
from holdfast.durable.tails import POSITION, Sink
from holdfast.storage.rocks.layouts.layout import MESSAGES, Cells, Puts
from holdfast.storage.rocks.layouts.scan import scan_values
from holdfast.storage.rocks.layouts.topic_check import filter_check, only

_pack: Final = POSITION.pack


class TimelineLayout:
    """Has no state: nothing to load, nothing to write behind."""

    name: Final = "timeline"

    @property
    def sink(self) -> Sink:
        return Sink(self.put)

    def put(self, topic: bytes, position_us: int, value: bytes, puts: FamilyChanges) -> None:  # noqa: ARG002 (the contract's)
        puts.put(MESSAGES + _pack(position_us), value)

    def read(
        self,
        cells: Cells,
        levels: tuple[bytes, ...],
        lo_us: int,
        hi_us: int,
        *,
        in_order: bool = True,  # noqa: ARG002 (the contract's)
    ) -> Iterator[bytes]:
        values = scan_values(cells, MESSAGES + _pack(max(lo_us, 0)), MESSAGES + _pack(max(hi_us, 0)))
        return only(values, filter_check(levels))

    def write_behind(self, puts: Puts, limit: int) -> int:  # noqa: ARG002 (the contract's)
        return 0

    def keep_up(self, cells: Cells, puts: Puts) -> None:
        pass

    def settle(self, cells: Cells) -> None:
        pass

    def finish(self) -> None:
        pass

    def load(self, cells: Cells) -> None:
        pass

    def learned(self) -> None:
        return None
