"""The keys and values of a generation, made by many workers: each gets a stretch of time, and all agree on the topics.

    topics and their counts ──▶ learn ──▶ LayoutStructure ──┬─▶ worker: messages of [a, b) ──▶ keys and values
                                                            └─▶ worker: messages of [b, c) ──▶ keys and values

The layout itself makes the keys, so whatever layout a generation has, it is written as the broker would write it.

1. What is learnt is learnt before the first key is made, from all topics: workers only look it up.
2. A layout with an index has it complete: the mark is behind the last message.
3. Keys of different workers are different: positions are unique in a shard, and so are blocks of postings that begin
   with them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from holdfast.durable.changes import FamilyChanges, Operation
from holdfast.durable.tails import StoredRecord
from holdfast.model.errors import MisuseError, PermanentError
from holdfast.records.generations import Parameter
from holdfast.storage.rocks.layouts.build import make_layout
from holdfast.storage.rocks.layouts.layout import MARKS, STRUCTURE, Layout
from holdfast.storage.rocks.layouts.postings import encode_mark
from holdfast.topics.learned import LearnedTopics

#: Entries of an index that are made at once.
_SLICE: Final = 100_000

Pair = tuple[bytes, bytes]


@dataclass(frozen=True)
class LayoutStructure:
    """How the messages of one shard's generation become keys; plain data, to be sent to workers."""

    layout: str
    parameters: dict[str, Parameter]
    #: What was learnt about topics, as it is stored; none for a layout that does not learn.
    records: tuple[Pair, ...] = ()
    #: Messages of each stream.
    counts: tuple[tuple[bytes, int], ...] = ()
    #: Whether the layout has a mark of how far its index reaches.
    has_mark: bool = False

    def own_pairs(self, last_us: int) -> list[Pair]:
        """Keys and values besides messages and their index. `last_us` is the last position."""
        pairs = [(STRUCTURE + key, value) for key, value in self.records]
        return [*pairs, encode_mark(last_us, list(self.counts))] if self.has_mark else pairs


def learn(layout: str, parameters: dict[str, Parameter], topics: Mapping[bytes, int]) -> LayoutStructure:
    """The structure for all topics of a shard, with how many messages each has. Many workers: `parallel_learning.py`.

    Learnt twice: what the first pass finds to vary is known to the second one from its first topic on, as a generation
    knows it from the one before.
    """
    made = make_layout(layout, layout_numbers(parameters))
    first = made.learned()
    if first is None:
        return LayoutStructure(layout, parameters)
    ordered = sorted(topics)
    _place(first, ordered, topics)
    known = first.inherit()
    _place(known, ordered, topics)
    records = tuple(known.take_changes())
    counts = tuple((stream, known.messages(stream)) for stream in known.stream_ids())
    return LayoutStructure(layout, parameters, records, counts, has_mark=layout == "learned")


def _place(known: LearnedTopics, ordered: list[bytes], topics: Mapping[bytes, int]) -> None:
    for topic in ordered:
        known.add_messages(known.place(topic).stream, topics[topic])


class ParallelLayoutWriter:
    """One worker's stretch of one shard. Requires: messages come in the order of their positions."""

    def __init__(self, structure: LayoutStructure) -> None:
        self._layout: Final[Layout] = make_layout(structure.layout, layout_numbers(structure.parameters))
        self._records: list[StoredRecord] = []
        self._puts = FamilyChanges()
        topics = self._layout.learned()
        if topics is not None:
            topics.load(structure.records)

    def put(self, topic: bytes, position_us: int, value: bytes) -> None:
        self._records.append((topic, position_us, value))

    def take(self) -> list[Pair]:
        """Keys and values of the messages since the last call."""
        self._layout.sink.put_records(self._records, self._puts)
        self._records = []
        taken, self._puts = self._puts, FamilyChanges()
        return list(_pairs(taken.operations))

    def finish(self) -> Iterator[list[Pair]]:
        """The rest: what leads to the messages."""
        yield self.take()
        self._layout.finish()
        while self._layout.write_behind(self._puts, _SLICE):
            yield self.take()


def _pairs(operations: Iterable[Operation]) -> Iterator[Pair]:
    for key, value in operations:
        if not isinstance(value, bytes):
            raise MisuseError("a layout deletes while it is written")
        if key[:1] == STRUCTURE:
            raise PermanentError(f"topic pattern {value!r} was not among the topics that were learnt from")
        if key != MARKS:  # one for all workers, written with the structure
            yield key, value


def layout_numbers(parameters: dict[str, Parameter]) -> dict[str, int | tuple[int, ...]]:
    """The parameters of a generation that its layout is made with."""
    return {name: value for name, value in parameters.items() if not isinstance(value, str)}
