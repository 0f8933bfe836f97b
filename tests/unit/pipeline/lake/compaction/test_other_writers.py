"""What other programs do to a table, before compaction or beside it: no row comes back, and none is there twice."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from deltalake.transaction import AddAction

from holdfast.model.errors import PermanentError
from holdfast.pipeline.lake.delta_log import is_plain_name
from holdfast.pipeline.lake.erasures import erasures_of
from holdfast.pipeline.lake.lake import Lake
from holdfast.pipeline.lake.retention import RetainJob, run_retain
from holdfast.pipeline.lake.upkeep import compact, remove_orphans
from holdfast.pipeline.lake.writer import lock_folder
from tests.unit.pipeline.filled_log import Key, Log
from tests.unit.pipeline.lake.test_upkeep import LATER
from tests.unit.pipeline.local_archive import archive, here

#: Of Delta's own examples: rows 3, 4, 7, 11, 18 and 29 are deleted.
VECTOR = {
    "storageType": "i",
    "pathOrInlineDv": "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
    "sizeInBytes": 44,
    "cardinality": 6,
}
MASKED_ROWS = 30
#: Of a run of the archive, so that files have more than that.
ROWS = 200
_VECTORS = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
PROTOCOL = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **_VECTORS}}


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log(tmp_path)
    yield log
    log.close()


@pytest.fixture
def lake(log: Log, tmp_path: Path) -> Path:
    """Of two days with four small files each."""
    folder = tmp_path / "lake"
    for _day in range(2):
        for _run in range(4):
            log.fill(ROWS)
            archive(log.path, folder)
        log.node.clock.advance(86_400_000_000)
    return folder


def commit(lake: Path, *entries: dict[str, Any], operation: str = "DELETE") -> None:
    """As another program: the next transaction, word for word."""
    number = len(list(lake.glob("_delta_log/*.json")))
    about = {"commitInfo": {"timestamp": time.time_ns() // 1_000_000, "operation": operation}}
    path = lake / "_delta_log" / f"{number:020}.json"
    path.write_text("\n".join(map(json.dumps, (about, *entries))), encoding="utf-8")


def entries(lake: Path) -> list[dict[str, Any]]:
    """Of the files that the table has, as they stand in Delta's log."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(lake.glob("_delta_log/*.json")):
        for entry in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
            if "remove" in entry:
                found.pop(entry["remove"]["path"], None)
            if "add" in entry:
                found[entry["add"]["path"]] = entry["add"]
    return list(found.values())


def removal(entry: dict[str, Any]) -> dict[str, Any]:
    row = {"path": entry["path"], "deletionTimestamp": time.time_ns() // 1_000_000, "dataChange": True}
    return {"remove": row | {"partitionValues": entry["partitionValues"], "size": entry["size"]}}


def left(lake: Path) -> list[Key]:
    """The rows of the table without those that are deleted in files; one that is there twice is twice in the list."""
    table = Lake.open(lake).table
    masks: dict[str, Any] = {}
    if "deletionVectors" in (table.protocol().reader_features or ()):
        for batch in pa.RecordBatchReader.from_stream(table.deletion_vectors()):
            masks |= {row["filepath"].rpartition("/")[2]: row["selection_vector"] for row in batch.to_pylist()}
    found = []
    for path in map(Path, table.file_uris()):
        mask = masks.get(path.name, [])
        rows = pq.read_table(path, columns=["shard", "serial"]).to_pylist()
        found += [
            (row["shard"], row["serial"]) for number, row in enumerate(rows) if number >= len(mask) or mask[number]
        ]
    return sorted(found)


def deletions(lake: Path) -> list[dict[str, Any]]:
    """A vector for one file of each partition that has rows enough."""
    touched: dict[str, dict[str, Any]] = {}
    for entry in entries(lake):
        if json.loads(entry["stats"])["numRecords"] >= MASKED_ROWS:
            touched.setdefault(str(entry["partitionValues"]), entry)
    return [change for one in touched.values() for change in (removal(one), {"add": one | {"deletionVector": VECTOR}})]


def test_rows_that_are_deleted_by_vectors_meanwhile_stay_deleted(lake: Path) -> None:
    """The first partition is refused by Delta, and with that the second one is read again: its file has its name."""
    commit(lake, PROTOCOL)
    changes = deletions(lake)
    right: list[Key] = []

    def beside(work: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        done = here(work, tasks)
        commit(lake, *changes)
        right.extend(left(lake))
        return done

    with lock_folder(lake):
        opened = Lake.open(lake)
        compact(opened, beside, today=LATER)
        assert len(changes) > 2, "several partitions"
        assert len(right) == 8 * ROWS - 6 * len(changes) // 2
        assert left(lake) == right
        assert remove_orphans(opened) == 0, "large files that are in no table"


def test_a_dry_run_counts_no_file_that_stays_for_its_vector(lake: Path) -> None:
    commit(lake, PROTOCOL, *deletions(lake))
    said = run_retain(RetainJob(lake, compacts=True, dry_run=True), lambda: here).compacted
    with lock_folder(lake):
        assert compact(Lake.open(lake), here, today=LATER) == said


def rename(lake: Path, form: Callable[[str], tuple[str, str]]) -> None:
    """Have another program write all files again: `form` gives the name in Delta's log and the path on the disk."""
    changes: list[dict[str, Any]] = []
    for entry in entries(lake):
        name, path = form(Path(entry["path"]).name)
        (lake / path).parent.mkdir(parents=True, exist_ok=True)
        (lake / unquote(entry["path"])).rename(lake / path)
        changes += [removal(entry), {"add": entry | {"path": name}}]
    commit(lake, *changes, operation="OPTIMIZE")


def _raw(folder: str) -> Callable[[str], tuple[str, str]]:
    return lambda file: (f"{folder}/{file}", f"{folder}/{file}")


FORMS: dict[str, Callable[[str], tuple[str, str]]] = {
    "letters": _raw("pattern=größe"),
    "space": _raw("a b"),
    "plus": lambda file: (f"a%2Bb/{file}", f"a+b/{file}"),
}


@pytest.mark.parametrize("form", FORMS)
def test_files_with_names_that_would_not_be_taken_out_stay(lake: Path, form: str) -> None:
    """Programs in Java quote fewer letters, and others more."""
    rename(lake, FORMS[form])
    before = left(lake)
    with lock_folder(lake):
        assert compact(Lake.open(lake), here, today=LATER) == 0
    assert left(lake) == before
    assert len(before) == 8 * ROWS


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("wanted", [{"client": "c1"}, {"keep_from": date(2100, 1, 1)}], ids=["erased", "old"])
def test_nothing_is_erased_by_halves_with_files_that_would_stay(
    log: Log, lake: Path, form: str, wanted: dict[str, Any]
) -> None:
    log.publish("home/1/temp")
    archive(log.path, lake)
    rename(lake, FORMS[form])
    before, version = left(lake), Lake.open(lake).version

    with pytest.raises(PermanentError, match=r"nothing was replaced .* has a name that .* rewrite it"):
        run_retain(RetainJob(lake, Path(log.path), by="test", **wanted), lambda: here)

    assert left(lake) == before
    assert Lake.open(lake).version == version
    assert erasures_of(lake).num_rows == 0, "recorded before it has happened"


def test_names_are_plain_as_delta_writes_them(tmp_path: Path) -> None:
    lake = Lake.open_or_make(tmp_path / "lake", "main")
    letters = [chr(number) for number in range(1, 0x100) if chr(number) != "/"] + ["€", "😀"]
    written = AddAction("", 1, {"day": "2026-01-01", "pattern": "#"}, 1, True, "{}")
    lake.append([replace(written, path=f"a{letter}b.parquet") for letter in letters], lake.partitions, {}, {})

    names = [entry["path"] for entry in entries(tmp_path / "lake")]

    assert len(names) == len(letters)
    assert [name for name in names if not is_plain_name(name)] == []
    raw = [f"a{letter}b.parquet" for letter in letters]
    assert {name for name in raw if is_plain_name(name)} == set(raw) & set(names)
