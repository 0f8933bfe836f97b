"""On Spark: the structure of the topics of a load or a relayout, learnt by the workers.

    slot, topic, messages ──▶ ranges, in order, kept ──▶ a trie each ──▶ merged as a tree ──▶ the driver: a trie a slot
                                    ▲                                                             │
                                    └────────── another round, until all ranges agree ◀───────────┘

What comes to the driver is bounded by the streams that structures may have (`parallel_learning.py`), and not by topics.
"""

import pickle
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row

from holdfast.pipeline.spark.errors import spark_errors
from holdfast.storage.rocks.shipments.parallel_layout import LayoutStructure
from holdfast.storage.rocks.shipments.parallel_learning import (
    LayoutChoice,
    LearningRound,
    RangeLearner,
    TopicTrie,
    learn_in_rounds,
)

#: Topics of a range, about: a second of work for each round.
_RANGE_TOPICS: Final = 100_000
_TRIES: Final = "slot int, trie binary"

Tries = dict[int, TopicTrie]
Rounds = Mapping[int, LearningRound]


def learn_structures(
    topics: DataFrame, layouts: Mapping[int, LayoutChoice], range_topics: int = _RANGE_TOPICS
) -> dict[int, LayoutStructure]:
    """The structure of each slot. `topics`: slot, topic (bytes), messages; each topic of a slot once."""
    counted = topics.select("slot", "topic", "messages").persist(StorageLevel.DISK_ONLY)
    ordered: DataFrame | None = None

    def run(rounds: Rounds) -> Tries:
        nonlocal ordered
        if ordered is None:
            ranges = counted.count() // range_topics + 1
            by_topic = counted.repartitionByRange(ranges, "slot", "topic").sortWithinPartitions("slot", "topic")
            ordered = by_topic.persist(StorageLevel.DISK_ONLY)
        tries = ordered.mapInArrow(partial(learn_ranges, rounds), _TRIES).rdd
        found: Tries = tries.treeAggregate({}, partial(_add, rounds), partial(_merge, rounds))
        return found

    try:
        with spark_errors():
            return learn_in_rounds(layouts, run)
    finally:
        counted.unpersist()
        if ordered is not None:
            ordered.unpersist()


def learn_ranges(rounds: Rounds, batches: Iterable[Any]) -> Iterator[Any]:
    """In a worker: the tries of the slots of a range, whose topics come in order."""
    learners: dict[int, RangeLearner] = {}
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in ("slot", "topic", "messages")]
        for slot, topic, messages in zip(*columns, strict=True):
            learner = learners.get(slot)
            if learner is None:
                if slot not in rounds:
                    continue  # its structure is known
                learner = learners[slot] = RangeLearner(rounds[slot])
            learner.add(topic, messages)
    found = [(slot, pickle.dumps(learner.finish())) for slot, learner in learners.items()]
    yield pa.RecordBatch.from_pydict(
        {
            "slot": pa.array([slot for slot, _trie in found], pa.int32()),
            "trie": pa.array([trie for _slot, trie in found], pa.binary()),
        }
    )


def _add(rounds: Rounds, tries: Tries, row: Row) -> Tries:
    return _merge(rounds, tries, {row.slot: pickle.loads(bytes(row.trie))})


def _merge(rounds: Rounds, one: Tries, other: Tries) -> Tries:
    both = {slot: rounds[slot].merge(one[slot], other[slot]) for slot in one.keys() & other.keys()}
    return {**one, **other, **both}
