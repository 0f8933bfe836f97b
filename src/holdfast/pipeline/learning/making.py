"""Learn from a broker's history, hot and cold, and choose what its next generation begins with."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from holdfast.model.errors import PermanentError, SettingsError
from holdfast.pipeline.faults import fault
from holdfast.pipeline.joined import joined
from holdfast.pipeline.learning.counting import Outside, SparkCounting
from holdfast.pipeline.learning.found import DOLLAR, PLAIN, Pattern
from holdfast.pipeline.learning.learner import Learner, Progress, learn
from holdfast.pipeline.learning.words import Learnt, explain
from holdfast.pipeline.opening import opened
from holdfast.pipeline.options import parse_options
from holdfast.pipeline.schema import SIZE
from holdfast.pipeline.source import NAME
from holdfast.pipeline.spark_session import session
from holdfast.pipeline.sql import in_words
from holdfast.records.lanes import zone_of_lane
from holdfast.storage.rocks.next_patterns import MAX_PATTERNS, read_patterns, write_patterns

#: All that is wanted of a message.
_COLUMNS: Final = f"shard,topic,{SIZE}"


class Wish(NamedTuple):
    """What to learn from."""

    #: Options of the data source.
    source: dict[str, str]
    #: This zone only.
    zone: str | None = None
    #: An archive of what the log may not have any more.
    lake: Path | None = None


class Result(NamedTuple):
    """What was learnt, the busiest pattern first."""

    found: list[Learnt]
    topics: int
    outside: Outside

    @property
    def messages(self) -> int:
        return sum(one.pattern.messages for one in self.found) + self.outside.messages

    @property
    def size_bytes(self) -> int:
        return sum(one.pattern.size_bytes for one in self.found) + self.outside.size_bytes


def learn_with(wish: Wish, master: str | None, progress: Progress) -> Result:
    """Start Spark for it. PermanentError says what went wrong, in words."""
    try:
        return learn_from(session("holdfast-learn", master=master), wish, progress)
    except (PySparkException, Py4JError) as error:
        raise PermanentError(in_words(error)) from error


def learn_from(spark: SparkSession, wish: Wish, progress: Progress) -> Result:
    """PermanentError if the data cannot be read; SettingsError: no such zone, no lake."""
    zones = _zones(wish)
    learner = Learner(sorted(set(zones.values())))
    progress(0.0, "messages")
    with closing(SparkCounting(_messages(spark, wish), zones, learner)) as counting:
        progress(0.4, f"{counting.topics:,} topics")
        patterns = learn(counting, learner, progress)
        fault("learn-learnt")
        return Result(explain(patterns), counting.topics, counting.outside)


def _zones(wish: Wish) -> dict[int, str]:
    """By shard, also of zones that the settings name no longer. What was loaded into a zone is one with it."""
    with opened(parse_options(wish.source)) as source:
        owners = {shard: zone_of_lane(view.name) for view in source.zones() for shard in view.shards}
    found = {shard: zone for shard, zone in owners.items() if wish.zone in (None, zone)}
    if not found:
        raise SettingsError(f"there is no zone {wish.zone!r}; there are {', '.join(sorted(set(owners.values())))}")
    return found


def _messages(spark: SparkSession, wish: Wish) -> DataFrame:
    given = {**wish.source, "columns": _COLUMNS} | ({} if wish.zone is None else {"zone": wish.zone})
    rows = spark.read.format(NAME).options(**given).load() if wish.lake is None else joined(spark, given, wish.lake)
    return rows.withColumnRenamed(SIZE, "size")


# ---- what follows from it


def chosen(found: Sequence[Learnt]) -> dict[str, list[str]]:
    """By zone, the patterns that are sure, and that a generation would not have by itself from the first message on.

    Those with a varying level; and single topics that have a name where others of these vary.
    """
    sure = [one.pattern for one in found if one.is_sure]
    varying: dict[str, list[Pattern]] = {}
    for pattern in sure:
        if pattern.varying:
            varying.setdefault(pattern.zone, []).append(pattern)
    zones: dict[str, list[str]] = {}
    for pattern in sure:
        if pattern.varying or any(_is_beside(pattern, other) for other in varying.get(pattern.zone, [])):
            zones.setdefault(pattern.zone, []).append(pattern.text)
    return {zone: texts[:MAX_PATTERNS] for zone, texts in zones.items()}


def _is_beside(single: Pattern, other: Pattern) -> bool:
    """Whether a topic names a level that varies in a pattern which is the same before it."""
    for mine, theirs in zip(single.levels, other.levels, strict=False):
        if mine != theirs:
            return theirs in (PLAIN, DOLLAR)
    return False


def apply(folder: Path, zones: dict[str, list[str]], learnt: Sequence[str]) -> dict[str, list[str]]:
    """Let the broker begin its next generations with these; zones that nothing was `learnt` about stay as they were.

    Returns what holds now. Survives: whatever ends it, with all of what was said before or all of this.
    """
    try:
        before = {zone: [pattern.decode() for pattern in given] for zone, given in read_patterns(folder).items()}
    except PermanentError:
        before = {}  # what nobody can use is no loss
    kept = {zone: given for zone, given in before.items() if zone not in learnt}
    wanted = kept | zones
    if wanted != before:
        write_patterns(folder, wanted)
    return wanted
