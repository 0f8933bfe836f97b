"""History from a broker's data folder on the same machine, whether the broker runs or not."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from holdfast.durable.log import Lost
from holdfast.history.reader import HistoryReader, Part, ZoneView
from holdfast.model.errors import PermanentError, SettingsError
from holdfast.pipeline.history_source import DroppedError
from holdfast.pipeline.offsets import Offset, Offsets
from holdfast.records.messages import stored_position, stored_serial


class PathSource:
    """Meets `HistorySource`."""

    def __init__(self, path: str) -> None:
        try:
            self._reader: Final = HistoryReader.open(Path(path))
        except PermanentError as wrong:
            raise SettingsError(f"option path: {wrong}") from wrong

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
        for value in self._reader.values(part):
            return Offset(stored_position(value), stored_serial(value))
        return None

    def batches(self, part: Part, levels: tuple[bytes, ...], columns: Sequence[str]) -> Iterator[Any]:
        live = {generation.number for generation in self._reader.generations(part.zone)}
        if part.generation not in live:
            raise DroppedError(
                f"generation {part.generation} of zone {part.zone!r} was dropped by retention before it was read; "
                f"load the table again to read what is left"
            )
        return self._reader.batches(part, levels, columns, in_order=False)

    def close(self) -> None:
        self._reader.close()
