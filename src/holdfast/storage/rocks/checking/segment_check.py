"""Checks the segments of one shard: every page, the map, and whether the index leads to each topic by each token."""

from collections.abc import Iterator
from typing import Final
from zlib import crc32

from holdfast.model.errors import HoldfastError
from holdfast.records.pages.segment_index import MAX_LEVELS, UNINDEXED_PAGES, Directory, PageMap
from holdfast.records.pages.segment_pages import SegmentPage
from holdfast.storage.rocks.engine.scan import FamilyReader
from holdfast.storage.rocks.layouts.segments import SegmentReader
from holdfast.topics.names import SEPARATOR

_END_US: Final = 2**63 - 1


class SegmentCheck:
    """Reads all segments once. `messages` counts what they hold."""

    def __init__(self, family: FamilyReader, segments: FamilyReader, mark_us: int, lost_us: int) -> None:
        """`lost_us` is the last position that is known to be lost; -1 if none is."""
        self._lost_us: Final = lost_us
        self._segments: Final = SegmentReader(family, segments)
        self._mark_us: Final = mark_us
        self.messages = 0

    def problems(self) -> Iterator[str]:
        last_us = -1
        try:
            for directory in self._segments.directories(0, _END_US):
                where = f"the segment from position {directory.first_us} on"
                if directory.first_us <= last_us:
                    yield f"{where} begins before the last one ends, at {last_us}"
                last_us = directory.last_us
                try:
                    for problem in self._segment_problems(directory):
                        yield f"{where}: {problem}"
                except HoldfastError as error:
                    yield f"{where}: {error}"
        except HoldfastError as error:
            yield f"the directories of segments cannot be read: {error}"
        if max(last_us, self._lost_us) != self._mark_us:
            yield f"segments end at position {last_us}, and the mark says {self._mark_us}"

    def _segment_problems(self, directory: Directory) -> Iterator[str]:
        page_map = self._segments.page_map(directory)
        positions = [-1] * page_map.serials
        tokens: list[dict[bytes, list[int]]] = []
        count = 0
        for number in range(directory.pages):
            page = self._segments.page(directory, number)
            count += page.count
            yield from _row_problems(page, number, page_map, positions)
            for topic in page.topics:
                for level, token in enumerate(topic.split(SEPARATOR)[:MAX_LEVELS]):
                    if level == len(tokens):
                        tokens.append({})
                    tokens[level].setdefault(token, []).append(number)
        self.messages += count
        if count != directory.messages or page_map.serials != directory.serials:
            said = f"{directory.messages} of {directory.serials}"
            yield f"it has {count} messages of {page_map.serials}, and its directory says {said}"
        known = [position_us for position_us in positions if position_us >= 0]
        if known != sorted(set(known)):
            yield "its positions do not follow the order of its serials"
        if directory.pages > UNINDEXED_PAGES:
            yield from self._index_problems(directory, tokens)

    def _index_problems(self, directory: Directory, tokens: list[dict[bytes, list[int]]]) -> Iterator[str]:
        for level, pages in enumerate(tokens):
            fingerprints = len({crc32(token) for token in pages})
            if level >= len(directory.tokens) or directory.tokens[level] != fingerprints:
                yield f"level {level} has {fingerprints} tokens, and its directory says otherwise"
                continue
            for token, numbers in pages.items():
                found = set(self._segments.pages_of(directory, level, token))
                missing = [number for number in numbers if number not in found]
                if missing:
                    yield f"token {token!r} at level {level} is on page {missing[0]}, and the index does not say so"


def _row_problems(page: SegmentPage, number: int, page_map: PageMap, positions: list[int]) -> Iterator[str]:
    for row in range(page.count):
        message = page.message(row, 0)
        rank = page.rank(row)
        if rank >= len(positions) or positions[rank] >= 0:
            yield f"page {number} has serial {page.first_serial + rank}, which is of another message"
            continue
        positions[rank] = message.position_us
        after_us = message.position_us - page.first_us
        if page_map.page_of(rank) != number or page_map.page_at(after_us) != number:
            yield f"the map does not lead to the message at {message.position_us}, on page {number}"
