"""The structure of topics, learnt by many workers: each has a range of them, and together they learn what one would.

    topics of a shard, in order
    ├─ range 0 ──▶ trie ─┐
    ├─ range 1 ──▶ trie ─┼─ merged, two by two ──▶ trie ──▶ again with what is known, until no range learns more
    └─ range 2 ──▶ trie ─┘

`learn` of `parallel_layout` puts the topics into one trie in their order. Most topics find their stream there; a few
*make* one, and the trie follows from these alone. A trie is therefore handed on as the topics that made its streams:
they are bounded by the streams that a structure may have, whatever the number of topics is.

1. A range begins with the trie of the topics in front of it that are known to make streams. In the first round none is
   known, so a range may make streams that others have made before it. Merging puts the makers of two tries into one, in
   order, and keeps those that still make a stream.
2. A round is exact if no range but the last one has found a maker that was not known: then every range began with
   the trie that the topics in front of it make. Each round is exact for one range more at least; two rounds are usual.
3. Merging does not depend on the order in which it is done.
4. Counts of messages are those of an exact round.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from holdfast.records.generations import Parameter
from holdfast.storage.rocks.layouts.build import make_layout
from holdfast.storage.rocks.shipments.parallel_layout import LayoutStructure, Pair, layout_numbers
from holdfast.topics.learned import LearnedTopics


class TopicTrie(NamedTuple):
    """What some ranges of topics make of a structure."""

    #: Topics that made a stream, in order.
    makers: tuple[bytes, ...]
    #: The first topic of the first range that found a maker which was not known, and that of the last range of all.
    news: bytes | None
    last: bytes
    #: Messages by stream; None if the round is not exact.
    counts: dict[bytes, int] | None

    @property
    def is_exact(self) -> bool:
        return self.counts is not None


@dataclass(frozen=True)
class LearningRound:
    """How a range of a shard's topics is learnt; plain data, to be sent to workers."""

    layout: str
    parameters: dict[str, Parameter]
    #: What the structure begins with.
    records: tuple[Pair, ...] = ()
    #: Topics that are known to make streams, in order.
    makers: tuple[bytes, ...] = ()

    def begin(self) -> LearnedTopics | None:
        """The structure before the first topic; None if the layout does not learn."""
        topics = make_layout(self.layout, layout_numbers(self.parameters)).learned()
        if topics is not None:
            topics.load(self.records)
        return topics

    def merge(self, one: TopicTrie, other: TopicTrie) -> TopicTrie:
        """The trie of both."""
        news = min([found for found in (one.news, other.news) if found is not None], default=None)
        last = max(one.last, other.last)
        counts = None
        if one.counts is not None and other.counts is not None and news in (None, last):
            counts = dict(Counter(one.counts) + Counter(other.counts))
        return TopicTrie(self._still_making([*one.makers, *other.makers]), news, last, counts)

    def next(self, found: TopicTrie) -> "LearningRound":
        """The round that follows one that was not exact."""
        return replace(self, makers=self._still_making(found.makers))

    def learnt(self, found: TopicTrie | None) -> LearnedTopics | None:
        """The structure with all topics. Requires: the round was exact; None if there was no topic."""
        topics = self.begin()
        if topics is not None and found is not None:
            for topic in self._still_making(found.makers):
                topics.place(topic)
            for stream, messages in (found.counts or {}).items():
                topics.add_messages(stream, messages)
        return topics

    def _still_making(self, makers: Iterable[bytes]) -> tuple[bytes, ...]:
        topics = self.begin()
        assert topics is not None
        return tuple([topic for topic in sorted({*self.makers, *makers}) if _makes(topics, topic)])


def _makes(topics: LearnedTopics, topic: bytes) -> bool:
    """Put a topic into its place; whether something was learnt by it."""
    before = topics.next_key()
    topics.place(topic)
    return topics.next_key() != before


class RangeLearner:
    """One worker's range of one shard. Requires: topics come in order, each once; the layout learns."""

    def __init__(self, known: LearningRound) -> None:
        topics = known.begin()
        assert topics is not None
        self._topics: Final = topics
        self._known: Final = known
        self._first: bytes | None = None
        self._makers: Final[list[bytes]] = []
        self._counts: Final[Counter[bytes]] = Counter()

    def add(self, topic: bytes, messages: int) -> None:
        if self._first is None:
            self._first = topic
            for maker in self._known.makers:
                if maker < topic:
                    self._topics.place(maker)
        before = self._topics.next_key()
        stream = self._topics.place(topic).stream
        self._counts[stream] += messages
        if self._topics.next_key() != before:
            self._makers.append(topic)

    def finish(self) -> TopicTrie | None:
        """None if there was no topic."""
        if self._first is None:
            return None
        is_new = not set(self._makers) <= set(self._known.makers)
        return TopicTrie(tuple(self._makers), self._first if is_new else None, self._first, dict(self._counts))


#: Runs a round for each slot, over all its topics: the trie of all ranges, merged; slots without a topic are left out.
RunRound = Callable[[Mapping[int, LearningRound]], Mapping[int, TopicTrie]]


class LayoutChoice(NamedTuple):
    """The layout of a shard's generation, and its parameters."""

    layout: str
    parameters: dict[str, Parameter]


def learn_in_rounds(layouts: Mapping[int, LayoutChoice], run: RunRound) -> dict[int, LayoutStructure]:
    """The structure of each slot, as `learn` gives it for all topics of the slot.

    Like there, everything is learnt twice: what the first time finds to vary, the second time begins with.
    """
    structures: dict[int, LayoutStructure] = {}
    rounds: dict[int, LearningRound] = {}
    for slot, (layout, parameters) in layouts.items():
        first = LearningRound(layout, parameters)
        if first.begin() is None:
            structures[slot] = LayoutStructure(layout, parameters)
        else:
            rounds[slot] = first
    again: dict[int, LearningRound] = {}
    for slot, topics in _learn_once(rounds, run).items():
        again[slot] = replace(rounds[slot], records=tuple(topics.inherit().take_changes()))
    for slot, topics in _learn_once(again, run).items():
        known = again[slot]
        records = (*known.records, *topics.take_changes())
        counts = tuple((stream, topics.messages(stream)) for stream in topics.stream_ids())
        structures[slot] = LayoutStructure(
            known.layout, known.parameters, records, counts, has_mark=known.layout == "learned"
        )
    return structures


def _learn_once(rounds: Mapping[int, LearningRound], run: RunRound) -> dict[int, LearnedTopics]:
    """The structure of each slot with all its topics in it, from an exact round."""
    learnt: dict[int, LearnedTopics] = {}
    waiting = dict(rounds)
    while waiting:
        found = run(waiting)
        for slot, known in list(waiting.items()):
            trie = found.get(slot)
            if trie is None or trie.is_exact:
                topics = known.learnt(trie)
                assert topics is not None
                learnt[slot] = topics
                del waiting[slot]
            else:
                waiting[slot] = known.next(trie)
    return learnt
