"""Counts the messages of layouts with learned streams: keys are streams and positions, postings are positions.

A filter that asks for a token at a varying level is answered from postings, and no message is read up to their mark.
Postings are told apart by fingerprints of 64 bits: two tokens that have the same one are counted together.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from holdfast.durable.log import NO_END
from holdfast.durable.tails import POSITION
from holdfast.records.messages import stored_position, stored_serial, stored_topic
from holdfast.storage.rocks.engine.scan import FamilyReader, check_end, get_many, get_one, open_cursor
from holdfast.storage.rocks.layouts.indexed import IndexedLayout
from holdfast.storage.rocks.layouts.layout import MESSAGES
from holdfast.storage.rocks.layouts.learned import LearnedLayout
from holdfast.storage.rocks.layouts.postings import read_mark, read_posting
from holdfast.storage.rocks.layouts.shard_counter import MESSAGES_END, SLICE, Place, ShardCounter, Wanted
from holdfast.storage.rocks.layouts.streams import scan_stream
from holdfast.topics.filters import REST
from holdfast.topics.learned_trie import StreamMatch

_pack: Final = POSITION.pack


class StreamCounter(ShardCounter):
    """Counts by the keys of streams and by postings; reads messages of a stream only where neither tells enough."""

    def __init__(self, layout: LearnedLayout | IndexedLayout, family: FamilyReader) -> None:
        super().__init__(layout, family)
        self._streams: Final = layout
        self._topics: Final = layout.topics_in(family)
        #: Postings are complete below this.
        indexed_us = NO_END if layout.name == "indexed" else read_mark(family) + 1
        self._indexed_us: Final = indexed_us if layout.tells_tokens_apart else 0
        self._cursor: Final = open_cursor(family, MESSAGES_END)

    def last_before(self, position_us: int) -> Place | None:
        cursor = self._cursor
        found = b""
        for stream in self._topics.stream_ids():
            prefix = MESSAGES + stream
            cursor.seek_for_prev(prefix + _pack(position_us - 1))
            if not cursor.valid():
                check_end(cursor)
                continue
            key = cursor.key()
            if key.startswith(prefix) and key[-8:] > found[-8:]:
                found = key
        value = get_one(self._family, found) if found else None
        return None if value is None else Place(stored_position(value), stored_serial(value))

    def topic_at(self, position_us: int) -> bytes | None:
        keys = [MESSAGES + stream + _pack(position_us) for stream in self._topics.stream_ids()]
        return next((stored_topic(value) for value in get_many(self._family, keys) if value is not None), None)

    def positions(self, wanted: Wanted, lo_us: int, hi_us: int) -> Iterator[Sequence[int]]:
        if wanted.client:
            for stream in self._topics.stream_ids():
                yield from self._checked(stream, wanted, lo_us, hi_us)
        elif wanted.is_dollar:
            plain = {match.stream for match in self._topics.streams_for((REST,)) if not match.whole_topics}
            shared = {match.stream for match in self._topics.streams_for((REST,)) if match.whole_topics}
            for stream in self._topics.stream_ids():
                if stream in shared:
                    yield from self._checked(stream, wanted, lo_us, hi_us)
                elif stream not in plain:
                    yield from self._keys(stream, lo_us, hi_us)
        else:
            for match in self._topics.streams_for(wanted.levels):
                yield from self._matches(match, wanted, lo_us, hi_us)

    def _matches(self, match: StreamMatch, wanted: Wanted, lo_us: int, hi_us: int) -> Iterator[Sequence[int]]:
        prefixes = self._streams.prefixes_of(match)
        if not prefixes:
            read = self._checked(match.stream, wanted, lo_us, hi_us)
            yield from read if match.whole_topics else self._keys(match.stream, lo_us, hi_us)
            return
        end_us = min(hi_us, self._indexed_us)
        if lo_us < end_us:
            found = set(read_posting(self._family, prefixes[0], lo_us, end_us))
            yield ()
            for prefix in prefixes[1:]:
                found.intersection_update(read_posting(self._family, prefix, lo_us, end_us))
                yield ()
            yield list(found)
        yield from self._checked(match.stream, wanted, max(lo_us, end_us), hi_us)

    def _keys(self, stream: bytes, lo_us: int, hi_us: int) -> Iterator[Sequence[int]]:
        """All messages of a stream: their keys are enough."""
        prefix = MESSAGES + stream
        end = prefix + _pack(hi_us)
        cursor = open_cursor(self._family, end)
        valid, key, step = cursor.valid, cursor.key, cursor.next
        cursor.seek(prefix + _pack(lo_us))
        found: list[int] = []
        while valid():
            found.append(int.from_bytes(key()[-8:], "big"))
            if len(found) >= SLICE:
                yield found
                found = []
            step()
        check_end(cursor)
        yield found

    def _checked(self, stream: bytes, wanted: Wanted, lo_us: int, hi_us: int) -> Iterator[Sequence[int]]:
        """The messages of a stream that are wanted, by a look at each."""
        found: list[int] = []
        for looked, value in enumerate(scan_stream(self._family, stream, lo_us, hi_us), 1):
            if wanted.has(value):
                found.append(stored_position(value))
            if looked % SLICE == 0:
                yield found
                found = []
        yield found
