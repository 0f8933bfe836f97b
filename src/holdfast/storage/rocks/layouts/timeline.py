"""The `timeline` layout: messages by time and nothing else.

    0x01 | position            9 bytes

The cheapest to write, and so simple that the others are tested against it. A replay reads everything in its range and
drops what does not match.
"""

from collections.abc import Iterator
from typing import Final

from holdfast.durable.changes import FamilyChanges
from holdfast.durable.tails import POSITION
from holdfast.storage.rocks.engine.scan import FamilyReader, scan_values, scan_values_back
from holdfast.storage.rocks.layouts.layout import MESSAGES, Passed
from holdfast.storage.rocks.layouts.topic_check import filter_check, only, only_back
from holdfast.storage.rocks.layouts.write_through import WriteThroughLayout

_pack: Final = POSITION.pack


class TimelineLayout(WriteThroughLayout):
    """Has no state."""

    name: Final = "timeline"

    def put(self, topic: bytes, position_us: int, value: bytes, puts: FamilyChanges) -> None:  # noqa: ARG002 (the contract's)
        puts.put(MESSAGES + _pack(position_us), value)

    def read(
        self,
        family: FamilyReader,
        levels: tuple[bytes, ...],
        lo_us: int,
        hi_us: int,
        *,
        in_order: bool = True,  # noqa: ARG002 (the contract's)
    ) -> Iterator[bytes]:
        values = scan_values(family, MESSAGES + _pack(max(lo_us, 0)), MESSAGES + _pack(max(hi_us, 0)))
        return only(values, filter_check(levels))

    def read_back(self, family: FamilyReader, levels: tuple[bytes, ...], lo_us: int, hi_us: int) -> Iterator[Passed]:
        values = scan_values_back(family, MESSAGES + _pack(max(lo_us, 0)), MESSAGES + _pack(max(hi_us, 0)))
        return only_back(values, filter_check(levels))
