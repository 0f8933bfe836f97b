"""The learned structure of topics: millions of topics follow a few patterns, and each pattern is one stream.

    plant/7/temp  plant/8/temp  …   →   pattern plant/+/temp, values (7,) (8,) …

It learns from the topics that pass. What it learnt is a list of records, one per stream in the order of their making,
which the caller stores together with the messages that caused them. Loading them gives the same structure.

1. Inside one structure a topic always has the same place, also after a reload: nothing it depends on ever changes
   (see `learned_trie.py`; learning stops for good at the limits, before a path would have to be cut).
2. Memory is bounded whatever is published: nodes, streams and cached places have limits. Topics beyond them, and topics
   that are very long or deep, share one catch-all stream.
3. A stream holds only topics of its pattern, and a topic is only in the stream of its pattern or in the catch-all. Two
   patterns never share a stream, even if their fingerprints are the same.
"""

from collections.abc import Iterable
from typing import Final

from holdfast.model.errors import MisuseError
from holdfast.topics.filters import ONE, REST
from holdfast.topics.learned_ids import FINGERPRINT_BITS, FINGERPRINT_BYTES, fingerprint
from holdfast.topics.learned_merge import gain, merge
from holdfast.topics.learned_trie import Stream, StreamMatch, Trie
from holdfast.topics.names import SEPARATOR
from holdfast.topics.overlap import covers

#: The first level usually names applications, of which a site has a dozen or two; below it come sites and devices,
#: and every edge there costs a stream per metric. (20, 10) keeps three levels of names inside 1,000 streams
#: as long as one of them varies, and finds a varying level after ten devices.
DEFAULT_THRESHOLDS: Final = (20, 10)
#: 20,000 streams cost a reader 180 MB of iterators, 1,000 cost 9 MB.
DEFAULT_MAX_STREAMS: Final = 1_000
DEFAULT_MAX_NODES: Final = 20_000
DEFAULT_MAX_PLACES: Final = 65_536

#: A longer or deeper topic is no pattern that a fleet of devices follows; it would only fill the trie.
MAX_LEVELS: Final = 32
MAX_TOPIC_BYTES: Final = 1_024
#: Longer topics are not cached, so that the cache stays small.
_MAX_CACHED_BYTES: Final = 256

#: Never change. No pattern's stream has this id.
CATCH_ALL: Final = bytes(FINGERPRINT_BYTES)
#: The record of the catch-all stream: it is made when the first topic goes there.
_CATCH_ALL_RECORD: Final = REST

#: Measured for CPython 3.11: a node with its dictionary and its entry in the parent's; a cached place with its entry.
_NODE_BYTES: Final = 400
_PLACE_BYTES: Final = 400


class TopicPlace:
    """Where a topic's messages are kept: the stream, and the topic's tokens at the stream's varying levels."""

    def __init__(self, stream: bytes, values: tuple[bytes, ...]) -> None:
        self.stream: Final = stream
        self.values: Final = values


class LearnedPattern:
    """The pattern of a stream, and its messages."""

    def __init__(self, text: str, messages: int) -> None:
        self.text: Final = text
        self.messages: Final = messages


class LearnedTopics:
    """What is known about the topics of one generation of one shard."""

    def __init__(
        self,
        thresholds: tuple[int, ...] = DEFAULT_THRESHOLDS,
        max_streams: int = DEFAULT_MAX_STREAMS,
        max_nodes: int = DEFAULT_MAX_NODES,
        max_places: int = DEFAULT_MAX_PLACES,
        id_bits: int = FINGERPRINT_BITS,
    ) -> None:
        if not thresholds or min(thresholds) < 0 or max_streams < 1 or max_nodes < MAX_LEVELS or max_places < 2:
            raise MisuseError(
                f"a learned structure needs thresholds of 0 or more, 1 stream, {MAX_LEVELS} nodes and 2 places at least"
            )
        if max_streams > 1 << id_bits:
            raise MisuseError(f"{max_streams} streams cannot have different ids of {id_bits} bits")
        self._max_streams: Final = max_streams
        self._max_nodes: Final = max_nodes
        self._half_places: Final = max_places // 2
        self._id_bits: Final = id_bits
        self._trie: Final = Trie(thresholds)
        self._streams: Final[dict[bytes, Stream]] = {}
        self._catch_all: Stream | None = None
        #: What it was given to begin with, and all beginnings of that.
        self._given: Final[list[tuple[bytes, ...]]] = []
        self._named: Final[set[bytes]] = set()
        #: Of an heir: what the structure was given that it inherits from.
        self._given_before: Final[list[tuple[bytes, ...]]] = []
        self._changes: list[tuple[bytes, bytes]] = []
        self._next_record = 0
        # Two halves: when the young one is full, the old one is forgotten.
        self._young: dict[bytes, TopicPlace] = {}
        self._old: dict[bytes, TopicPlace] = {}

    def place(self, topic: bytes) -> TopicPlace:
        """Where `topic` belongs; learns from it. Requires: a valid topic name."""
        found = self._young.get(topic)
        if found is None:
            found = self._old.get(topic)
            if found is None:
                found = self._find(topic)
            if len(topic) <= _MAX_CACHED_BYTES:
                if len(self._young) >= self._half_places:
                    self._old = self._young
                    self._young = {}
                self._young[topic] = found
        return found

    def _find(self, topic: bytes) -> TopicPlace:
        if len(topic) > MAX_TOPIC_BYTES:
            return self._outside(topic)
        tokens = topic.split(SEPARATOR)
        if len(tokens) > MAX_LEVELS:
            return self._outside(topic)
        levels: list[bytes] = []
        values: list[bytes] = []
        stream = self._trie.walk(tokens, levels, values)
        if stream is None:
            if not self._has_room():
                return self._outside(topic)
            pattern = SEPARATOR.join(levels)
            stream = self._new_stream(pattern, levels)
            self._record(pattern)
        return TopicPlace(stream.id, tuple(values))

    def _has_room(self) -> bool:
        """Whether one more path of any length fits. Once False it stays False: see rule 1."""
        return len(self._streams) < self._max_streams - 1 and self._trie.node_count + MAX_LEVELS <= self._max_nodes

    def _new_stream(self, pattern: bytes, levels: list[bytes]) -> Stream:
        stream_id = fingerprint(pattern, self._id_bits)
        attempt = 0
        while stream_id == CATCH_ALL or stream_id in self._streams:
            # Taken by another pattern. The next choice depends on the records before, and they are loaded in order.
            attempt += 1
            stream_id = fingerprint(b"%s\0%d" % (pattern, attempt), self._id_bits)
        stream = Stream(stream_id, pattern)
        self._streams[stream_id] = stream
        self._trie.insert(levels, stream)
        return stream

    def _outside(self, topic: bytes) -> TopicPlace:
        if self._catch_all is None:
            self._catch_all = Stream(CATCH_ALL, _CATCH_ALL_RECORD)
            self._record(_CATCH_ALL_RECORD)
        return TopicPlace(CATCH_ALL, (topic,))

    def _record(self, pattern: bytes) -> None:
        self._changes.append((self.next_key(), pattern))
        self._next_record += 1

    @property
    def thresholds(self) -> tuple[int, ...]:
        return self._trie.thresholds

    def next_key(self) -> bytes:
        """The key of the next record. A reader that follows a writer loads from here on."""
        return self._next_record.to_bytes(4, "big")

    def take_changes(self) -> list[tuple[bytes, bytes]]:
        """Records made since the last call, as (key, value). Requires: they are stored with the messages."""
        taken = self._changes
        if taken:
            self._changes = []
        return taken

    def load(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        """Take over stored records, in the order of their keys; more may follow later from `next_key` on.

        Requires: the parameters are those that the records were made with.
        """
        for key, pattern in pairs:
            self._next_record = int.from_bytes(key, "big") + 1
            if pattern == _CATCH_ALL_RECORD:
                self._catch_all = Stream(CATCH_ALL, pattern)
            else:
                self._new_stream(pattern, pattern.split(SEPARATOR))

    def streams_for(self, levels: tuple[bytes, ...]) -> list[StreamMatch]:
        """The streams that may hold messages for the filter `levels`, each once."""
        found = self._trie.match(levels)
        if self._catch_all is not None:
            wanted = None if ONE in levels or levels[-1] == REST else SEPARATOR.join(levels)
            found.append(StreamMatch(CATCH_ALL, (0,), (wanted,), whole_topics=True))
        return found

    def stream_ids(self) -> list[bytes]:
        """Every stream, the catch-all included if it is in use."""
        return [*self._streams, CATCH_ALL] if self._catch_all is not None else list(self._streams)

    def inherit(self) -> "LearnedTopics":
        """A structure for the next generation: paths with a varying level, with what was known under it merged.

        At most half of the streams are taken over, the busiest first, so that there is room to learn.
        """
        heir = self.fresh()
        heir._given_before.extend(self._given)
        for merged in merge(self._trie, self._named):
            if merged.varies:
                heir._adopt(merged.pattern)
        return heir

    def begin_with(self, patterns: Iterable[bytes]) -> None:
        """Begin with patterns that were learnt elsewhere, from more than passes here. Requires: nothing learnt yet.

        They may name more tokens of a level than its threshold says, and tokens beside a varying level.
        """
        chosen = list(patterns)
        for pattern in chosen:
            self._adopt(pattern)
        self.keep(chosen)

    def keep(self, patterns: Iterable[bytes]) -> None:
        """Note the patterns that it began with, after `load`: the next generation must not merge them."""
        for pattern in patterns:
            levels = pattern.split(SEPARATOR)
            self._given.append(tuple(levels))
            self._named.update([SEPARATOR.join(levels[: i + 1]) for i in range(len(levels))])

    def adopt(self, inherited: "LearnedTopics") -> None:
        """Go on with what another structure inherited; its parameters may be others. Requires: nothing learnt yet.

        What it was given knows better: it makes a pattern superfluous that it covers, and one that is wider, unless
        that was learnt beside it, from topics that it does not hold.
        """
        new = [given for given in self._given if given not in inherited._given_before]
        for stream in inherited._streams.values():
            levels = tuple(stream.pattern.split(SEPARATOR))
            if not any(covers(given, levels) for given in self._given) and not any(
                covers(levels, given) for given in new
            ):
                self._adopt(stream.pattern)

    def _adopt(self, pattern: bytes) -> None:
        if 2 * len(self._streams) < self._max_streams and self._has_room():
            self._new_stream(pattern, pattern.split(SEPARATOR))
            self._record(pattern)

    def fresh(self) -> "LearnedTopics":
        """A structure with the same parameters that has learnt nothing."""
        return LearnedTopics(
            self._trie.thresholds, self._max_streams, self._max_nodes, 2 * self._half_places, self._id_bits
        )

    def gain(self) -> float:
        """What a new generation would improve, from 0 to 1."""
        merged = merge(self._trie, self._named)
        inherited = sum([1 for pattern in merged if pattern.varies])
        return gain(merged, self.catch_all_messages, room=2 * inherited <= self._max_streams)

    def add_messages(self, stream: bytes, messages: int) -> None:
        """Count messages of a stream."""
        if stream == CATCH_ALL:
            if self._catch_all is not None:
                self._catch_all.messages += messages
        else:
            self._streams[stream].messages += messages

    def messages(self, stream: bytes) -> int:
        return self.catch_all_messages if stream == CATCH_ALL else self._streams[stream].messages

    @property
    def catch_all_messages(self) -> int:
        return 0 if self._catch_all is None else self._catch_all.messages

    @property
    def node_count(self) -> int:
        return self._trie.node_count

    @property
    def stream_count(self) -> int:
        return len(self._streams) + (self._catch_all is not None)

    def memory_bytes(self) -> int:
        """An estimate of what the structure and its cache take."""
        cached = len(self._young) + len(self._old)
        return self._trie.node_count * _NODE_BYTES + self._trie.token_bytes + cached * _PLACE_BYTES

    def patterns(self) -> list[LearnedPattern]:
        """Every stream's pattern with its messages, the busiest first; `#` is the catch-all."""
        shown = list(self._streams.values()) if self._catch_all is None else [*self._streams.values(), self._catch_all]
        shown.sort(key=lambda stream: (-stream.messages, stream.pattern))
        return [LearnedPattern(stream.pattern.decode(errors="replace"), stream.messages) for stream in shown]

    def check_invariants(self) -> None:
        assert len(self._streams) < self._max_streams
        assert self._trie.node_count <= self._max_nodes
        assert len(self._young) <= self._half_places
        assert len(self._old) <= self._half_places
        for half in (self._young, self._old):
            for topic, place in half.items():
                again = self._find(topic)
                assert (again.stream, again.values) == (place.stream, place.values), topic
