"""What sources have in common, whichever of the two readers of history is behind them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from holdfast.durable.log import Lost
from holdfast.history.view import Part, ZoneView
from holdfast.model.errors import SettingsError
from holdfast.pipeline.offsets import Offset, Offsets
from holdfast.topics.learned_show import Pattern

if TYPE_CHECKING:
    from holdfast.history.flight_client import FlightHistory
    from holdfast.history.reader import HistoryReader


class ReaderSource:
    """Meets `HistorySource`."""

    def __init__(self, reader: "HistoryReader | FlightHistory") -> None:
        self._reader: Final = reader

    def heads(self) -> Offsets:
        self._reader.refresh()
        return {shard: Offset(*head) for shard, head in self._reader.heads().items()}

    def zones(self) -> list[ZoneView]:
        return self._reader.zones()

    def parts(self, since_us: int, until_us: int, zone: str | None = None) -> list[Part]:
        names = [view.name for view in self.zones()]
        if zone is not None and zone not in names:
            raise SettingsError(f"option zone: there is no zone {zone!r}; there are {', '.join(names)}")
        return self._reader.parts(since_us, until_us, zone)

    def lost(self, shard: int, from_us: int, before_us: int) -> Lost | None:
        return self._reader.lost(shard, from_us, before_us)

    def first(self, part: Part) -> Offset | None:
        found = self._reader.first(part)
        return found and Offset(*found)

    def batches(self, part: Part, levels: tuple[bytes, ...], columns: Sequence[str]) -> Iterator[Any]:
        return self._reader.batches(part, levels, columns, in_order=False)

    def patterns(self) -> list[Pattern]:
        return self._reader.patterns()

    def renew(self, lease: str, positions: Mapping[int, int]) -> None:
        self._reader.renew(lease, positions)

    def close(self) -> None:
        self._reader.close()
