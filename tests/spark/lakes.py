"""What is in a lake, against what publishers were acknowledged."""

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from pyspark.sql import SparkSession

from holdfast.pipeline.lake.archive import Archive
from holdfast.pipeline.lake.archive_job import ArchiveJob, ArchiveOutcome, run_archive
from holdfast.pipeline.lake.lake import Lake
from holdfast.pipeline.lake.store import LakeAddress
from holdfast.pipeline.lake.writer import lock_folder
from holdfast.pipeline.source.read_options import parse_read_options
from holdfast.pipeline.spark.runner import SparkRunner
from holdfast.storage.rocks.log.leases import remove_lease
from tests.spark.publishers import Broker, Sent


def archive(
    spark: SparkSession, broker: Broker, lake: LakeAddress, *, batch_rows: int = 1_000, **given: str
) -> ArchiveOutcome:
    """All that is durable now, by tasks of Spark."""
    options = parse_read_options({"path": str(broker.data), **given})
    return run_archive(ArchiveJob(options, lake, "main", batch_rows=batch_rows), lambda: SparkRunner(spark))


def archive_some(spark: SparkSession, broker: Broker, lake: Path, rows: int) -> None:
    """The oldest so many: the rest is in the log alone."""
    with lock_folder(lake):
        options = parse_read_options({"path": str(broker.data)})
        begun = Archive(options, Lake.open_or_make(lake, "main"), SparkRunner(spark), batch_rows=rows)
        with closing(begun):
            assert next(begun.batches()).rows == rows
    remove_lease(broker.data, "archive-main")


def check_whole(lake: LakeAddress) -> None:
    """Each message up to the offsets of the lake is there once, and no other is."""
    opened = Lake.open(lake)
    found = opened.table.to_pyarrow_table(columns=["shard", "serial"]).to_pylist()
    right = [
        (shard, serial) for shard in sorted(opened.offsets) for serial in range(1, opened.offsets[shard].serial + 1)
    ]
    assert sorted((row["shard"], row["serial"]) for row in found) == right


def data_files(lake: Path) -> set[Path]:
    """Parquet files that lie there, whether the table has them or not."""
    return set(lake.glob("day=*/**/*.parquet"))


def check_no_file_is_left(lake: Path) -> None:
    """Files are those of the table, and those that it has replaced."""
    opened = Lake.open(lake)
    replaced = opened.table.vacuum(0, enforce_retention_duration=False)
    assert data_files(lake) == {Path(uri) for uri in opened.table.file_uris()} | {lake / path for path in replaced}


def payloads(lake: LakeAddress) -> list[bytes]:
    return sorted(Lake.open(lake).table.to_pyarrow_table(columns=["payload"])["payload"].to_pylist())


def sent(messages: Iterable[Sent]) -> list[bytes]:
    return sorted(message.payload for message in messages)
