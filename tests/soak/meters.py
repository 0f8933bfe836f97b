"""What is measured while a broker lives: counts of keys, files, objects and tombstones, and bytes of memory."""

import gc
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from rocksdict import Options

from holdfast.durable.changes import Changes, RangeEnd
from holdfast.storage.rocks.engine import engine, recovery
from holdfast.storage.rocks.engine.options import database_options

#: Keys that RocksDB looks at: those it gives out, and tombstones and older values that it passes over.
_VISITS = (
    "rocksdb.number.iter.skip",
    "rocksdb.number.db.next",
    "rocksdb.number.db.seek",
    "rocksdb.number.keys.read",
)


class Meters:
    """Installed before the broker is opened. It counts in the code that is there, and changes nothing of it."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._options: Options | None = None
        self._visited_before = 0
        self.range_tombstones = 0
        self.keys_written = 0
        make_options = database_options
        make_batch = engine.as_batch

        def with_statistics(*arguments: object) -> Options:
            options = make_options(*arguments)  # type: ignore[arg-type]
            options.enable_statistics()
            self._visited_before = self.keys_visited()
            self._options = options
            return options

        def counted(changes: Changes, handles: object) -> object:
            for _name, family in changes.families():
                self.keys_written += len(family.operations)
                self.range_tombstones += sum(isinstance(value, RangeEnd) for _key, value in family.operations)
            return make_batch(changes, handles)  # type: ignore[arg-type]

        patch.setattr(recovery, "database_options", with_statistics)
        patch.setattr(engine, "as_batch", counted)

    def keys_visited(self) -> int:
        """In all databases opened so far."""
        total = self._visited_before
        statistics = (self._options and self._options.get_statistics()) or ""
        for name in _VISITS:
            found = re.search(rf"^{re.escape(name)} COUNT : (\d+)", statistics, re.MULTILINE)
            total += int(found.group(1)) if found else 0
        return total


@dataclass
class Sample:
    """The state of a broker at one moment, and the work of one thing that it did."""

    hour: float
    values: dict[str, int] = field(default_factory=dict)


def memory_bytes() -> int:
    """Resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def objects() -> int:
    gc.collect()
    return len(gc.get_objects())


def files(folder: Path) -> int:
    return sum(1 for path in folder.rglob("*") if path.is_file())


def growth(samples: list[Sample], name: str) -> tuple[int, int]:
    """The largest value in the second quarter of a life and in its last one: the first is for warming up."""
    values = [sample.values[name] for sample in samples]
    quarter = max(1, len(values) // 4)
    return max(values[quarter : 2 * quarter]), max(values[-quarter:])


def table(samples: list[Sample]) -> str:
    names = list(samples[0].values)
    lines = ["  ".join(["hour", *names])]
    lines += [
        "  ".join([f"{sample.hour:4.1f}", *(f"{sample.values[name]:>{len(name)}}" for name in names)])
        for sample in samples
    ]
    return "\n".join(lines)
