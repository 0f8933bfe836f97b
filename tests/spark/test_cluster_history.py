"""Spark over the history of nodes of a cluster: tables, and a stream whose checkpoint holds at every node (R1)."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast.history.flight.server import FlightServer
from holdfast.history.reader.reader_pool import ReaderPool
from holdfast.history.tokens import Tokens
from holdfast.model.errors import PermanentError
from holdfast.pipeline import history, load
from holdfast.pipeline.audit.job import AuditJob, audit_history
from holdfast.pipeline.lake.archive_job import ArchiveJob, run_archive
from holdfast.pipeline.relayout.job import run_relayout
from holdfast.pipeline.relayout.plan import RelayoutJob
from holdfast.pipeline.report.job import ReportJob, report_figures
from holdfast.pipeline.source.read_options import parse_read_options
from holdfast.pipeline.spark.progress import no_progress
from holdfast.pipeline.spark.runner import SparkRunner
from tests.unit.history.cluster_folder import NodeFolder, fill
from tests.unit.storage.rocks.vnodes.vnode_world import Logs, opened

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


class Nodes:
    """Two nodes of one cluster. The second one is served by Flight, too."""

    def __init__(self, folder: Path) -> None:
        self.kept = ExitStack()
        logs = Logs()
        self.one, self.two = [
            NodeFolder(self.kept.enter_context(opened(folder / name)), logs=logs) for name in ("one", "two")
        ]
        self.level()
        path = self.two.engine.folder
        pool = ReaderPool(path, 4)
        self.server = FlightServer(path, pool, Tokens(None), "127.0.0.1", 0)
        self.kept.callback(pool.close)
        self.kept.callback(self.server.shutdown)

    def level(self) -> None:
        for node in (self.one, self.two):
            node.apply()
            node.publish()

    @property
    def endpoint(self) -> str:
        return f"grpc://127.0.0.1:{self.server.port}"


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    nodes = Nodes(tmp_path)
    yield nodes
    nodes.kept.close()


def archive(spark: SparkSession, folder: Path, lake: Path) -> None:
    run_archive(ArchiveJob(parse_read_options({"path": str(folder)}), lake, "main"), lambda: SparkRunner(spark))


def places(node: NodeFolder) -> list[tuple[int, int]]:
    return sorted((row[0], row[2]) for row in node.rows)


def test_a_table_of_a_node_has_every_message_and_every_filter_finds_its_own(spark: SparkSession, nodes: Nodes) -> None:
    fill(nodes.one)
    nodes.level()
    for where in ({"path": str(nodes.one.engine.folder)}, {"endpoint": nodes.endpoint}):
        table = spark.read.format("holdfast").options(**where).load()
        assert sorted((row.shard, row.serial) for row in table.select("shard", "serial").collect()) == places(nodes.one)
        found = table.where("topic = 'b/3' AND shard = 2").select("serial").collect()
        wanted = [row[2] for row in nodes.one.rows if row[0] == 2 and row[3] == "b/3"]
        assert sorted(row.serial for row in found) == wanted
        sessions = spark.read.format("holdfast").options(**where, table="sessions").load()
        assert sessions.count() == 0


def test_a_stream_goes_on_at_another_node_with_its_checkpoint(
    spark: SparkSession, nodes: Nodes, tmp_path: Path
) -> None:
    def run(where: dict[str, str]) -> None:
        frame = spark.readStream.format("holdfast").options(**where, columns="shard,serial", maxRowsPerTrigger="40")
        query = (
            frame.load()
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .option("path", str(tmp_path / "out"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def found() -> list[tuple[int, int]]:
        return sorted((row.shard, row.serial) for row in spark.read.parquet(str(tmp_path / "out")).collect())

    fill(nodes.one)
    run({"path": str(nodes.one.engine.folder)})
    assert found() == places(nodes.one)
    run({"endpoint": nodes.endpoint})
    assert found() == places(nodes.one), "a node that is behind has nothing new, and loses nothing"
    nodes.level()
    nodes.two.fill(4)
    nodes.two.publish()
    run({"endpoint": nodes.endpoint})
    assert found() == places(nodes.two)
    nodes.level()
    nodes.one.fill(1)
    nodes.one.publish()
    run({"path": str(nodes.one.engine.folder)})
    assert found() == places(nodes.one)


def test_an_archive_and_a_report_take_a_node_as_they_take_a_broker(
    spark: SparkSession, nodes: Nodes, tmp_path: Path
) -> None:
    """The archive goes on at the other node, and hot and cold are one table."""
    fill(nodes.one)
    archive(spark, nodes.one.engine.folder, tmp_path / "lake")
    nodes.level()
    nodes.two.fill(3)
    nodes.two.publish()
    archive(spark, nodes.two.engine.folder, tmp_path / "lake")
    nodes.two.fill(2)
    nodes.two.publish()
    whole = history(spark, path=nodes.two.engine.folder, lake=tmp_path / "lake", columns=["shard", "serial"])
    assert sorted((row.shard, row.serial) for row in whole.collect()) == places(nodes.two)
    figures = report_figures(spark, ReportJob({"path": str(nodes.two.engine.folder)}, 0, "Cluster"), no_progress)
    assert figures.totals.messages == len(nodes.two.rows)


def test_what_would_write_into_one_node_is_refused(spark: SparkSession, nodes: Nodes) -> None:
    fill(nodes.one)
    folder = nodes.one.engine.folder
    rows = spark.createDataFrame([("a/1", b"x")], "topic string, payload binary")
    with pytest.raises(PermanentError, match="belongs to a node of a cluster"):
        load(spark, rows, folder)
    with pytest.raises(PermanentError, match="belongs to a node of a cluster"):
        run_relayout(spark, RelayoutJob(folder, layout="timeline"))
    with pytest.raises(PermanentError, match="belongs to a node of a cluster"):
        audit_history(spark, AuditJob({"path": str(folder)}))
