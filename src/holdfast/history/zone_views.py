"""Zones of a data folder that a broker has open: their generations with messages and sizes, and learned patterns.

The rows are those of `storage/rocks/checking/overview.py`, which needs the folder for itself.
"""

from collections.abc import Iterator
from contextlib import suppress

from holdfast.history.reader.reader import HistoryReader
from holdfast.history.reader.view import UNKNOWN, View
from holdfast.model.errors import HoldfastError
from holdfast.records.generations import Generation
from holdfast.storage.rocks.checking.overview import GenerationView, PatternView, family_bytes, generation_patterns


def list_generations(reader: HistoryReader) -> list[GenerationView]:
    """Every live generation, zones by name and then oldest first."""
    view = reader.view()
    return [
        GenerationView(
            zone.name,
            tuple(zone.filters),
            record.number,
            record.layout,
            record.shards,
            record.start_us,
            record.end_us,
            count_messages(view, record),
            size_bytes(reader, record),
        )
        for zone in reader.zones()
        for record in view.generations(zone.name)
    ]


def list_patterns(reader: HistoryReader, zone: str | None = None) -> Iterator[PatternView]:
    """What was learnt, the busiest pattern of each slice first."""
    for one in reader.zones():
        if zone in (None, one.name):
            for record in reader.generations(one.name):
                yield from generation_patterns(record, reader)


def count_messages(view: View, record: Generation) -> int | None:
    """The messages of a generation, by serials; None if it is not known any more how many came before."""
    total = 0
    for number, shard in enumerate(record.shards):
        head = view.heads.get(shard)
        written = 0 if head is None else head.serial
        before = view.serial_before(record.zone, record, shard)
        if before == UNKNOWN:
            return None
        last = min(record.last_serials[number], written) if record.end_us else written
        total += max(0, last - before)
    return total


def size_bytes(reader: HistoryReader, record: Generation) -> int:
    """Of the files of a generation; 0 while all of it is in memory."""
    total = 0
    for name in record.families():
        with suppress(HoldfastError):  # segments come later, or never
            total += family_bytes(reader.family(name))
    return total
