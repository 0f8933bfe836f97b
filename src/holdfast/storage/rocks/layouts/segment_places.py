"""Places of messages that the segments of a shard tell without being read.

    starts    the first message of each segment: a read that begins there reads no page of the one before
    first     the first message at or behind a position, by the map of its segment

Commit pages behind the last segment are no part of this: a read finds their first message at once.
"""

from holdfast.records.pages.segment_index import Directory
from holdfast.storage.rocks.engine.scan import FamilyReader
from holdfast.storage.rocks.layouts.layout import Layout
from holdfast.storage.rocks.layouts.paged import PagedLayout
from holdfast.storage.rocks.layouts.postings import NOTHING_INDEXED
from holdfast.storage.rocks.layouts.segments import SegmentReader, open_shard
from holdfast.storage.rocks.layouts.shard_counter import Place


def segment_starts(layout: Layout, family: FamilyReader, lo_us: int, hi_us: int) -> list[Place]:
    """The first messages of the segments that begin in [lo, hi), in order; none if the layout has no segments."""
    segments = _open(layout, family)
    if segments is None:
        return []
    return [
        Place(directory.first_us, directory.first_serial)
        for directory in segments.directories(lo_us, hi_us)
        if directory.first_us >= lo_us and directory.pages
    ]


def first_in_segments(layout: Layout, family: FamilyReader, lo_us: int, hi_us: int) -> Place | None:
    """The first message of [lo, hi) that is in a segment. PermanentError if the map of its segment is damaged."""
    segments = _open(layout, family)
    if segments is None:
        return None
    for directory in segments.directories(lo_us, hi_us):
        found = _first(segments, directory, lo_us) if directory.pages else None
        if found is not None:
            return found if found.position_us < hi_us else None
    return None


def _open(layout: Layout, family: FamilyReader) -> SegmentReader | None:
    if not isinstance(layout, PagedLayout) or open_shard(family)[1] == NOTHING_INDEXED:
        return None
    return layout.segments_in(family)


def _first(segments: SegmentReader, directory: Directory, lo_us: int) -> Place | None:
    """The first message of a segment at or behind a position."""
    if lo_us <= directory.first_us:
        return Place(directory.first_us, directory.first_serial)
    page_map = segments.page_map(directory)
    _before_us, rank = page_map.last_before(lo_us - directory.first_us)
    for following in range(rank + 1, page_map.serials):
        after_us = page_map.position_of(following)
        if after_us >= 0:  # it was not left out
            return Place(directory.first_us + after_us, directory.first_serial + following)
    return None
