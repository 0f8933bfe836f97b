"""Learned patterns of topics, as the files beside a broker tell them."""

from holdfast.history.reader import HistoryReader
from holdfast.storage.rocks.layouts.streams import stored_structure
from holdfast.storage.rocks.zone_generations import LiveGeneration
from holdfast.topics.filters import REST
from holdfast.topics.names import SEPARATOR
from holdfast.topics.overlap import covers


def learned_patterns(reader: HistoryReader) -> list[str]:
    """The widest of all that were learnt, in any zone and generation; no topic has to match one of them.

    A level becomes varying after some tokens were seen there. Those keep patterns of their own, which the one with `+`
    covers, so they are left out.
    """
    found: set[tuple[bytes, ...]] = set()
    for zone in reader.zones():
        for record in reader.generations(zone.name):
            for piece in LiveGeneration(record).slices.values():
                like = piece.layout.learned()
                if like is not None:
                    # Only the structure: how many messages each has would have to be counted.
                    stored = stored_structure(like, reader.family(piece.family))
                    found.update(tuple(pattern.text.encode().split(SEPARATOR)) for pattern in stored.patterns())
    found.discard((REST,))
    return sorted(SEPARATOR.join(levels).decode(errors="replace") for levels in _widest(found))


def _widest(found: set[tuple[bytes, ...]]) -> list[tuple[bytes, ...]]:
    widest: list[tuple[bytes, ...]] = []
    by_length: dict[int, list[tuple[bytes, ...]]] = {}
    # The one with more open levels first, so that each is compared with those that may cover it.
    for levels in sorted(found, key=lambda one: (-one.count(b"+"), one)):
        same = by_length.setdefault(len(levels), [])
        if not any(covers(wide, levels) for wide in same):
            same.append(levels)
            widest.append(levels)
    return widest
