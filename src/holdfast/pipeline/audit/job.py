"""The job of an audit: what is read, in which order, and which checks it has.

    heads ──▶ sessions, queues, retained messages ──▶ the log ──▶ the lake ──▶ checks, one after the other

1. What changes while a broker runs is read first, and kept: the log that is read afterwards has all that it rests on.
2. On a cluster it is kept by two executors, so that the loss of one does not have it read again, later than the log.
3. Nothing is written, neither to the data folder nor to the lake. An audit that is killed leaves nothing.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, xxhash64

from holdfast.durable.log import NO_END
from holdfast.history.audit.queue_states import first_positions
from holdfast.history.reader.view import Part, View
from holdfast.model.errors import PermanentError
from holdfast.pipeline.audit.findings import AuditReport, Check, by_shard, judge
from holdfast.pipeline.audit.index_check import index_faults, topics_of
from holdfast.pipeline.audit.lake_check import archived_faults, archived_messages, differing_faults, uncovered_faults
from holdfast.pipeline.audit.retained_check import (
    absent_faults,
    lacks_room,
    retained_faults,
    retained_table,
    unknown_faults,
)
from holdfast.pipeline.audit.serial_check import (
    POSITIONS,
    SERIALS,
    expected_serials,
    number_stretches,
    order_faults,
    publisher_faults,
    serial_faults,
)
from holdfast.pipeline.audit.session_check import owed_messages, session_faults
from holdfast.pipeline.audit.stored_state import queue_states, stored_messages
from holdfast.pipeline.lake.archive_table import ArchiveTable
from holdfast.pipeline.lake.formats import open_lake
from holdfast.pipeline.source.history_source import session_ranges, source_view
from holdfast.pipeline.source.read_options import ReadOptions, parse_read_options
from holdfast.pipeline.spark.errors import permanent_errors
from holdfast.pipeline.spark.executor_folder import check_executors_read, is_local
from holdfast.pipeline.spark.fault_points import fault
from holdfast.pipeline.spark.progress import JobProgress, no_progress
from holdfast.pipeline.spark.session import session
from holdfast.records.lanes import is_lane

if TYPE_CHECKING:
    from holdfast.pipeline.lake.store import LakeAddress

#: Topics that are asked for one by one, if nothing else is said.
MOST_TOPICS: Final = 10_000
MOST_EXAMPLES: Final = 5


@dataclass(frozen=True)
class AuditJob:
    #: Options of the data source.
    source: Mapping[str, str]
    lake: "LakeAddress | None" = None
    most_topics: int = MOST_TOPICS
    most_examples: int = MOST_EXAMPLES
    #: The broker stores no QoS 0: then a retained message may have been removed without a trace in the log.
    qos0_unstored: bool = False


def run_audit(job: AuditJob, master: str | None, progress: JobProgress) -> AuditReport:
    """Start Spark, and audit. PermanentError: the data cannot be read, or Spark failed."""
    with permanent_errors():
        spark = session("holdfast-audit", master=master, say=progress.say)
        progress.watch(spark)
        check_executors_read(spark, job.source)
        return audit_history(spark, job, progress)


def audit_history(spark: SparkSession, job: AuditJob, progress: JobProgress = no_progress) -> AuditReport:
    """PermanentError: the data cannot be read, or are those of a node in a cluster."""
    options = parse_read_options(job.source)
    if source_view(options).of_cluster:
        raise PermanentError(
            f"{options.endpoint or options.path} belongs to a node of a cluster, and the checks are those of one node: "
            "it would take different times of vnodes for faults; `holdfast verify` checks the folder, and nodes "
            "compare their tables themselves"
        )
    with ExitStack() as kept:

        def keep(frame: DataFrame, level: StorageLevel = StorageLevel.MEMORY_AND_DISK) -> DataFrame:
            frame.persist(level)
            kept.callback(frame.unpersist)
            frame.count()
            return frame

        changing = StorageLevel.MEMORY_AND_DISK if is_local(spark) else StorageLevel.MEMORY_AND_DISK_2
        # First: a token that may not audit is refused before anything is read. The ranges have sessions of later, too.
        ranges = session_ranges(options)
        now_us = time.time_ns() // 1000
        seen = {shard: head.position_us for shard, head in source_view(options).heads.items()}
        progress(0.0, "retained messages", until=0.05)
        retained = keep(retained_table(spark, job.source), changing)
        progress(0.05, "sessions and queues", until=0.2)
        queues = keep(queue_states(spark, options, ranges, now_us), changing)
        lake = None if job.lake is None else open_lake(job.lake)
        view = source_view(options)
        parts = view.parts(0, NO_END, None)
        owed = sum(max(0, part.last_serial - part.after_serial) for part in parts)
        progress(0.2, "messages of the log", until=0.4, rows=owed)
        counter = progress.counter(spark)
        rows = keep(stored_messages(spark, options, parts, checksums=lake is not None, counter=counter))
        fault("audit-read")
        work = _Checks(spark, job, options, view, parts, rows, rows.count(), keep, progress)
        checks = [
            *work.log_checks(),
            work.sessions(queues, now_us),
            work.retained(retained, seen, now_us),
            *(() if lake is None else work.lake_checks(lake)),
        ]
        sessions = queues.where("client IS NOT NULL").select("client").distinct().count()
        heads = {shard: (head.position_us, head.serial) for shard, head in view.heads.items()}
        return AuditReport(checks, work.messages, sessions, heads)


@dataclass(frozen=True)
class _Checks:
    """The checks, over what was read."""

    spark: SparkSession
    job: AuditJob
    options: ReadOptions
    view: View
    parts: list[Part]
    rows: DataFrame
    messages: int
    #: Has a frame read now, and once.
    keep: Callable[[DataFrame], DataFrame]
    progress: JobProgress

    def _lanes(self) -> list[int]:
        return [shard for zone in self.view.zones.values() if is_lane(zone.name) for shard in zone.shards]

    def log_checks(self) -> Iterator[Check]:
        rows, most = self.rows, self.job.most_examples
        self.progress(0.4, "serials and positions", until=0.5)
        found = self.keep(
            serial_faults(self.spark, number_stretches(self.spark, rows, self.view), expected_serials(self.view))
        )
        claim = "serials are dense from what retention left to the head, and none is there twice"
        yield judge("serials", claim, _of(found, SERIALS), self.messages, "messages", most)
        claim = "positions increase with serials, and none is there twice"
        yield judge("positions", claim, _of(found, POSITIONS), self.messages, "messages", most)
        self.progress(0.5, "order", until=0.6)
        claim = "messages lie in the order of their positions, each in its own generation"
        yield judge("order", claim, order_faults(rows), self.messages, "messages", most)
        claim = "messages of a publisher and topic are in one shard, and their publish numbers increase"
        zones = {shard: zone.name for zone in self.view.zones.values() for shard in zone.shards}
        yield judge("publishers", claim, publisher_faults(rows, zones, self._lanes()), self.messages, "messages", most)
        yield self._index()

    def _index(self) -> Check:
        self.progress(0.6, "topics, each by the index", until=0.7)
        topics = topics_of(self.rows)
        count, most = topics.count(), self.job.most_topics
        notes = []
        if count > most:
            topics = topics.orderBy(xxhash64("topic", "shard", "generation")).limit(most)
            notes.append(f"{most:,} of {count:,} topics were asked for; --topics {count} asks for all")
        found = index_faults(topics, self.options, self.parts)
        claim = "a read of one topic finds what a read of everything finds of it"
        return judge("index", claim, found, min(count, most), "topics", self.job.most_examples, notes)

    def sessions(self, queues: DataFrame, now_us: int) -> Check:
        self.progress(0.7, "what sessions are owed", until=0.85)
        # What retention dropped between the two looks is in one opinion and not in the other.
        begins = by_shard("shard", first_positions(self.parts), NO_END)
        passed = f"begins > 0 AND begins < {begins} AND coalesce(sent, -1) + 1 < {begins}"
        judged = queues.where(f"NOT ({passed})")
        lost = queues.count() - judged.count()
        notes = [f"{lost} queues are not judged: retention dropped messages meanwhile"] if lost else []
        found = session_faults(judged, owed_messages(judged, self.rows, now_us))
        claim = "each session is owed what its queue holds: the log against its subscriptions"
        return judge("sessions", claim, found, judged.count(), "queues", self.job.most_examples, notes)

    def retained(self, table: DataFrame, seen: dict[int, int], now_us: int) -> Check:
        self.progress(0.85, "retained messages against the log", until=0.9)
        # What was loaded becomes no retained message.
        rows = self.rows.where(~col("shard").isin(self._lanes()))
        heads = {shard: head.position_us for shard, head in self.view.heads.items()}
        found = retained_faults(table, rows, seen).union(unknown_faults(table, rows, self._lasting(), heads))
        notes = []
        if self.job.qos0_unstored or lacks_room(self.options):
            why = "QoS 0 is not stored" if self.job.qos0_unstored else "there was no room for all of them"
            notes.append(f"whether retained messages are missing is not judged: {why}")
        else:
            found = found.union(absent_faults(table, rows, seen, now_us))
        claim = "the retained message of a topic is the newest that the log has"
        return judge("retained", claim, found, table.count(), "topics", self.job.most_examples, notes)

    def _lasting(self) -> dict[int, int]:
        """From which position on the log has everything, by shard."""
        firsts = {one.shard: one.first for one in expected_serials(self.view)}
        return first_positions([part for part in self.parts if part.after_serial + 1 >= firsts[part.shard]])

    def lake_checks(self, lake: ArchiveTable) -> Iterator[Check]:
        self.progress(0.9, "messages of the lake", until=1.0)
        most = self.job.most_examples
        rows = self.keep(archived_messages(self.spark, lake))
        count = rows.count()
        found = self.keep(archived_faults(self.spark, lake, rows))
        serials = _of(found, SERIALS).unionByName(uncovered_faults(self.spark, lake, expected_serials(self.view)))
        claim = (
            "serials of the lake are dense but for what was erased or dropped by its age, up to where the log goes on"
        )
        yield judge("lake serials", claim, serials, count, "messages", most)
        claim = "positions of the lake increase with serials"
        yield judge("lake positions", claim, _of(found, POSITIONS), count, "messages", most)
        claim = "a message that is in the lake and in the log is the same in both"
        yield judge("lake and log", claim, differing_faults(rows, self.rows), count, "messages", most)


def _of(found: DataFrame, kind: str) -> DataFrame:
    return found.where(f"of = '{kind}'").drop("of")
