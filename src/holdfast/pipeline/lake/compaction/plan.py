"""Which files compaction replaces: small ones of crowded days and patterns, in bins; each bin becomes one file.

1. A plan is bounded: in partitions, files and bins, and so in what a run has to do again if it is killed.
2. The files of a bin are in the order of what they hold: row groups of the large file have narrow bounds.
3. A file stays if its rows are not known for certain: if Delta's log does not count them, or some are deleted. It also
   stays if it has a name that would not be taken out (`delta_log.py`).
4. Of a crowded partition at least one bin has two files, so that running a plan again and again ends.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]

from holdfast.pipeline.lake.delta_log import OldFile, StoredTable, is_plain_name, last_part

#: Input of a large file, about. Any two files that are packed fit.
BIN_BYTES: Final = 128 * 2**20
_PACKED_BYTES: Final = BIN_BYTES // 2
_SMALL_BYTES: Final = BIN_BYTES // 4
#: Files of a bin, at most: opening each takes a while.
_BIN_FILES: Final = 1_024
#: Small files of one day and pattern that may be: while the day goes on, and when it is over.
_MOST_SMALL_TODAY: Final = 64
_MOST_SMALL_BEFORE: Final = 3
#: Days and patterns of a plan, its files, and its bins.
_MOST_PLACES: Final = 8
_MOST_FILES: Final = 16 * _BIN_FILES
_MOST_BINS: Final = 32
_MAPPED: Final = "delta.columnMapping.mode"

#: Values of the partition columns; None: null.
Partition = tuple[str | None, ...]


class SmallFile(NamedTuple):
    """A file that becomes a part of a larger one."""

    #: As Delta names it.
    name: str
    size_bytes: int
    rows: int


class FileBin(NamedTuple):
    """Files that become one: a task."""

    #: Where it will lie, and the values that Delta's log has for it.
    place: str
    partition: dict[str, str | None]
    #: Columns without nulls, whose bounds are known of all the files.
    bounds: tuple[str, ...]
    files: tuple[SmallFile, ...]

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def old_files(self) -> list[OldFile]:
        return [OldFile(file.name, file.size_bytes, self.partition) for file in self.files]


class _Candidate(NamedTuple):
    order: tuple[int, str]
    file: SmallFile
    bounds: frozenset[str]


def plan_compaction(lake: StoredTable, today: str) -> list[FileBin]:
    """The bins of one run, those of a partition one after the other; none, if no partition is crowded."""
    left = lake.names_with_deletions()
    counts = crowded_partitions(lake, today, left)
    chosen: dict[Partition, list[_Candidate]] = {place: [] for place in islice(counts, _MOST_PLACES)}
    if not chosen:
        return []
    bounded = _bounded_columns(lake)
    found = (file for file in _packable(lake, left) if partition_of(lake, file) in chosen)
    for file in islice(found, _MOST_FILES):
        chosen[partition_of(lake, file)].append(_candidate(file, bounded))
    bins = (one for place, candidates in chosen.items() for one in _bins(lake, place, candidates))
    return list(islice(bins, _MOST_BINS))


def crowded_partitions(lake: StoredTable, today: str, left: Iterable[str]) -> dict[Partition, int]:
    """Partitions with too many small files, the most crowded first, and how many files of each are to be packed.

    `left`: files that stay (`StoredTable.names_with_deletions`).
    """
    small: dict[Partition, int] = {}
    packed: dict[Partition, int] = {}
    for file in _packable(lake, left):
        place = partition_of(lake, file)
        packed[place] = packed.get(place, 0) + 1
        if file["size_bytes"] < _SMALL_BYTES:
            small[place] = small.get(place, 0) + 1
    crowded = [place for place, count in small.items() if count > _most_small(place[0], today)]
    # Null is last.
    crowded.sort(key=lambda place: (-small[place], [(value is None, value or "") for value in place]))
    return {place: packed[place] for place in crowded}


def partition_of(lake: StoredTable, file: Mapping[str, Any]) -> Partition:
    values = (file[f"partition.{name}"] for name in lake.partitions)
    return tuple(None if value is None else str(value) for value in values)


def _most_small(day: str | None, today: str) -> int:
    return _MOST_SMALL_TODAY if day is None or day >= today else _MOST_SMALL_BEFORE


def _packable(lake: StoredTable, left: Iterable[str]) -> Iterable[dict[str, Any]]:
    if lake.table.metadata().configuration.get(_MAPPED, "none") != "none":
        return  # columns have other names in its files
    for file in lake.iter_files():
        known = file["num_records"] is not None and last_part(file["path"]) not in left
        if known and file["size_bytes"] < _PACKED_BYTES and is_plain_name(file["path"]):
            yield file


def _bounded_columns(lake: StoredTable) -> list[str]:
    """Columns that may have bounds: not texts and payloads, of which nothing may stand in Delta's log."""
    schema = lake.file_schema
    return [one.name for one in schema if pa.types.is_integer(one.type) or pa.types.is_timestamp(one.type)]


def _candidate(file: Mapping[str, Any], bounded: Iterable[str]) -> _Candidate:
    def has_bounds(name: str) -> bool:
        nulls, lowest = file.get(f"null_count.{name}"), file.get(f"min.{name}")
        return nulls == 0 and lowest is not None and file.get(f"max.{name}") is not None

    # The log's order, if it is known; otherwise that in which files came.
    first = file.get("min.offset")
    order = (file["modification_time"] if first is None else first, file["path"])
    small = SmallFile(file["path"], file["size_bytes"], file["num_records"])
    return _Candidate(order, small, frozenset(name for name in bounded if has_bounds(name)))


def _bins(lake: StoredTable, place: Partition, candidates: Iterable[_Candidate]) -> Iterable[FileBin]:
    """In their order; a file that is alone stays as it is."""
    bins: list[list[_Candidate]] = []
    room_bytes = 0
    for one in sorted(candidates, key=lambda one: one.order):
        room_bytes -= one.file.size_bytes
        if room_bytes < 0 or len(bins[-1]) == _BIN_FILES:
            bins.append([])
            room_bytes = BIN_BYTES - one.file.size_bytes
        bins[-1].append(one)
    partition = dict(zip(lake.partitions, place, strict=True))
    for packed in bins:
        if len(packed) > 1:
            common = frozenset.intersection(*(one.bounds for one in packed))
            yield FileBin(lake.place(partition), partition, tuple(sorted(common)), tuple(one.file for one in packed))
