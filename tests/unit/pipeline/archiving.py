"""The archive without Spark: its tasks run here, one after the other."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from holdfast.pipeline.archive_run import ArchiveJob, Outcome, run_archive
from holdfast.pipeline.options import parse_options
from tests.unit.pipeline.stored import Key, keys


def here(work: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
    """A runner."""
    return [work(task) for task in tasks]


def archive(
    path: str | Path, lake: Path, name: str = "main", *, batch_rows: int = 1_000, compacts: bool = False, **given: str
) -> Outcome:
    """Archive all that is durable now."""
    job = ArchiveJob(parse_options({"path": str(path), **given}), lake, name, batch_rows=batch_rows, compacts=compacts)
    return run_archive(job, lambda: here)


def rows(lake: Path) -> list[dict[str, Any]]:
    """What any reader of Delta finds."""
    found: list[dict[str, Any]] = DeltaTable(str(lake)).to_pyarrow_table().to_pylist()
    return found


def archived(lake: Path) -> list[Key]:
    """Which messages these are; one that is there twice is twice in the list."""
    return keys(rows(lake))
