"""The job of learning: read log and lake, learn patterns, choose those that the next generation begins with."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from holdfast.model.errors import PermanentError, SettingsError
from holdfast.pipeline.lake.lake_reader import union_history
from holdfast.pipeline.learn.description import ExplainedPattern, explain_patterns
from holdfast.pipeline.learn.learner import DOLLAR, PLAIN, Learner, TopicPattern, learn_patterns
from holdfast.pipeline.learn.topic_counts import SparkTopicCounts, UnmatchedTopics
from holdfast.pipeline.source.data_source import NAME
from holdfast.pipeline.source.history_source import open_source
from holdfast.pipeline.source.read_options import parse_read_options
from holdfast.pipeline.source.schema import SIZE
from holdfast.pipeline.spark.errors import permanent_errors
from holdfast.pipeline.spark.executor_folder import check_executors_read
from holdfast.pipeline.spark.fault_points import fault
from holdfast.pipeline.spark.progress import JobProgress
from holdfast.pipeline.spark.session import session
from holdfast.records.lanes import zone_of_lane
from holdfast.storage.rocks.log.next_patterns import MAX_PATTERNS, read_patterns, write_patterns

if TYPE_CHECKING:
    from holdfast.pipeline.lake.store import LakeAddress

#: All that is wanted of a message.
_COLUMNS: Final = f"shard,topic,{SIZE}"


@dataclass(frozen=True)
class LearnJob:
    """The history that topic patterns are learnt from."""

    #: ReadOptions of the data source.
    source: dict[str, str]
    #: This zone only.
    zone: str | None = None
    #: An archive of what the log may not have any more.
    lake: "LakeAddress | None" = None


class LearnOutcome(NamedTuple):
    """What was learnt, the busiest pattern first."""

    found: list[ExplainedPattern]
    topics: int
    outside: UnmatchedTopics

    @property
    def messages(self) -> int:
        return sum(one.pattern.messages for one in self.found) + self.outside.messages

    @property
    def size_bytes(self) -> int:
        return sum(one.pattern.size_bytes for one in self.found) + self.outside.size_bytes


def run_learn(job: LearnJob, master: str | None, progress: JobProgress) -> LearnOutcome:
    """Start Spark, and learn. PermanentError: Spark failed; and the errors of `learn_history`."""
    with permanent_errors():
        spark = session("holdfast-learn", master=master, say=progress.say)
        progress.watch(spark)
        check_executors_read(spark, job.source)
        return learn_history(spark, job, progress)


def learn_history(spark: SparkSession, job: LearnJob, progress: JobProgress) -> LearnOutcome:
    """PermanentError: the data cannot be read; SettingsError: no such zone, no lake."""
    zones = _zones(job)
    learner = Learner(sorted(set(zones.values())))
    progress(0.0, "messages", until=0.4, reads=True)
    with closing(SparkTopicCounts(_messages(spark, job), zones, learner)) as counting:
        progress(0.4, f"{counting.topics:,} topics")
        patterns = learn_patterns(counting, learner, progress)
        fault("learn-learnt")
        return LearnOutcome(explain_patterns(patterns), counting.topics, counting.outside)


def _zones(job: LearnJob) -> dict[int, str]:
    """By shard, also of zones that the settings name no longer. What was loaded into a zone is one with it."""
    with open_source(parse_read_options(job.source)) as source:
        owners = {shard: zone_of_lane(view.name) for view in source.zones() for shard in view.shards}
    found = {shard: zone for shard, zone in owners.items() if job.zone in (None, zone)}
    if not found:
        raise SettingsError(f"there is no zone {job.zone!r}; there are {', '.join(sorted(set(owners.values())))}")
    return found


def _messages(spark: SparkSession, job: LearnJob) -> DataFrame:
    given = {**job.source, "columns": _COLUMNS} | ({} if job.zone is None else {"zone": job.zone})
    rows = (
        spark.read.format(NAME).options(**given).load() if job.lake is None else union_history(spark, given, job.lake)
    )
    return rows.withColumnRenamed(SIZE, "size")


# ---- what follows from it


def choose_patterns(found: Sequence[ExplainedPattern]) -> dict[str, list[str]]:
    """By zone, the patterns that are sure and that a new generation would have to learn first.

    Those with a varying level; and single topics that have a name where others of these vary.
    """
    sure = [one.pattern for one in found if one.is_sure]
    varying: dict[str, list[TopicPattern]] = {}
    for pattern in sure:
        if pattern.varying:
            varying.setdefault(pattern.zone, []).append(pattern)
    zones: dict[str, list[str]] = {}
    for pattern in sure:
        if pattern.varying or any(_is_beside(pattern, other) for other in varying.get(pattern.zone, [])):
            zones.setdefault(pattern.zone, []).append(pattern.text)
    return {zone: texts[:MAX_PATTERNS] for zone, texts in zones.items()}


def _is_beside(single: TopicPattern, other: TopicPattern) -> bool:
    """Whether a topic names a level that varies in a pattern which is the same before it."""
    for mine, theirs in zip(single.levels, other.levels, strict=False):
        if mine != theirs:
            return theirs in (PLAIN, DOLLAR)
    return False


def apply_patterns(folder: Path, zones: dict[str, list[str]], learnt: Sequence[str]) -> dict[str, list[str]]:
    """Let the broker begin its next generations with these; zones that nothing was `learnt` about stay as they were.

    Returns what holds now. Survives: whatever ends it, with all of what was said before or all of this.
    """
    try:
        before = {zone: [pattern.decode() for pattern in given] for zone, given in read_patterns(folder).items()}
    except PermanentError:
        before = {}  # a file that cannot be read is replaced
    kept = {zone: given for zone, given in before.items() if zone not in learnt}
    wanted = kept | zones
    if wanted != before:
        write_patterns(folder, wanted)
    return wanted
