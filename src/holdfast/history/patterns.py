"""Learned patterns of topics: those that a data folder holds, and what others would gain or cost.

`measure_patterns` writes a shard's newest messages three times, with the structure of topics that each name stands for:

now        the structure of the newest generation, as it is stored
inherited  what the next generation would begin with
given      what the next generation would begin with if it were given the patterns
"""

import tempfile
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.durable.log import NO_END
from holdfast.history.reader.reader import HistoryReader
from holdfast.model.errors import PermanentError
from holdfast.records.generations import Generation
from holdfast.records.messages import stored_serial, stored_topic
from holdfast.storage.rocks.bench.pattern_trial import Levels, PatternTrial, TrialQuestion, try_out
from holdfast.storage.rocks.layouts.build import PLACING
from holdfast.storage.rocks.layouts.patterns import read_structure
from holdfast.storage.rocks.layouts.streams import stored_structure
from holdfast.storage.rocks.log.zone_generations import LiveGeneration
from holdfast.topics.filters import REST, levels_match
from holdfast.topics.learned import LearnedTopics
from holdfast.topics.learned_trie import is_varying
from holdfast.topics.names import SEPARATOR, is_dollar
from holdfast.topics.overlap import covers

#: The most messages of a trial: they are held in memory, and written three times.
MOST_MESSAGES: Final = 200_000
#: Devices that are queried, one after the other.
_SAMPLES: Final = 20

NOW: Final = "now"
INHERITED: Final = "inherited"
GIVEN: Final = "given"


class PatternMeasurement(NamedTuple):
    """The trials, by name, of a number of messages of a shard."""

    zone: str
    shard: int
    messages: int
    trials: dict[str, PatternTrial]


def measure_patterns(
    folder: Path, zone: str, patterns: Sequence[str], progress: Callable[[str], None], most: int = MOST_MESSAGES
) -> PatternMeasurement:
    """Requires: an existing zone, and at least one pattern. PermanentError if its layout does not learn."""
    given = [pattern.encode() for pattern in patterns]
    with HistoryReader.open(folder) as reader:
        record = reader.generations(zone)[-1]
        if record.layout not in PLACING:
            raise PermanentError(f"zone {zone!r} has layout {record.layout}, which does not place messages by patterns")
        shard = max(record.shards, key=lambda number: (reader.heads()[number].serial, -number))
        values = _newest(reader, shard, most)
        if not values:
            raise PermanentError(f"shard {shard} of zone {zone!r} has no messages to measure with")
        structures = _structures(reader, record, shard, given)
    questions = _questions(given, [stored_topic(value) for value in values])
    trials: dict[str, PatternTrial] = {}
    for name, topics in structures.items():
        progress(name)
        with tempfile.TemporaryDirectory(prefix="holdfast-patterns-") as place:
            trials[name] = try_out(Path(place), topics, values, questions)
    return PatternMeasurement(zone, shard, len(values), trials)


def _newest(reader: HistoryReader, shard: int, most: int) -> list[bytes]:
    after = reader.heads()[shard].serial - most
    parts = [part for part in reader.shard_parts(shard, 0, NO_END) if part.last_serial > after or part.last_serial < 0]
    return [value for value in reader.start_replay(parts).records() if stored_serial(value) > after]


def _structures(reader: HistoryReader, record: Generation, shard: int, given: list[bytes]) -> dict[str, LearnedTopics]:
    like = LiveGeneration(record).by_shard[shard].layout.learned()
    assert like is not None
    now = stored_structure(like, reader.family(record.family(shard)))
    inherited = now.fresh()
    inherited.adopt(now.inherit())
    wanted = now.fresh()
    wanted.begin_with(given)
    wanted.adopt(now.inherit())
    return {NOW: now, INHERITED: inherited, GIVEN: wanted}


def _questions(given: list[bytes], topics: list[bytes]) -> list[TrialQuestion]:
    """Queries of a trial: some devices of the first varying pattern (the busiest), all of it, and all messages."""
    levels = next(
        (found for found in map(_levels, given) if any(is_varying(level, i) for i, level in enumerate(found))),
        _levels(given[0]),
    )
    shape: Levels = tuple(b"+" if is_varying(level, depth) and depth else level for depth, level in enumerate(levels))
    matching = dict.fromkeys(
        topic for topic in topics if levels_match(shape, topic.split(SEPARATOR), dollar=is_dollar(topic))
    )
    last = max((depth for depth, level in enumerate(levels) if is_varying(level, depth)), default=len(levels) - 1)
    step = max(1, len(matching) // _SAMPLES)
    devices = [
        (*tokens[: last + 1], *((REST,) if len(tokens) > last + 1 else ()))
        for topic in islice(matching, 0, None, step)
        for tokens in [topic.split(SEPARATOR)]
    ][:_SAMPLES]
    asked = [TrialQuestion("one device", tuple(devices))] if devices else []
    return [*asked, TrialQuestion("one shape", (shape,)), TrialQuestion("everything", ((REST,),))]


def _levels(pattern: bytes) -> Levels:
    return tuple(pattern.split(SEPARATOR))


def learned_patterns(reader: HistoryReader) -> list[str]:
    """The widest learned patterns of all zones and generations. A topic need not match any of them.

    A level becomes varying after some tokens were seen there. These tokens keep separate patterns, which are left out
    because the pattern with `+` covers them.
    """
    found: set[tuple[bytes, ...]] = set()
    for zone in reader.zones():
        for record in reader.generations(zone.name):
            for piece in LiveGeneration(record).by_shard.values():
                stored = read_structure(piece.layout, reader.family(piece.family))
                if stored is not None:
                    found.update(tuple(pattern.text.encode().split(SEPARATOR)) for pattern in stored.patterns())
    found.discard((REST,))
    return sorted(SEPARATOR.join(levels).decode(errors="replace") for levels in _widest(found))


def _widest(found: set[tuple[bytes, ...]]) -> list[tuple[bytes, ...]]:
    widest: list[tuple[bytes, ...]] = []
    by_length: dict[int, list[tuple[bytes, ...]]] = {}
    # Patterns with more `+` first, so that each is compared with those that may cover it.
    for levels in sorted(found, key=lambda one: (-one.count(b"+"), one)):
        same = by_length.setdefault(len(levels), [])
        if not any(covers(wide, levels) for wide in same):
            same.append(levels)
            widest.append(levels)
    return widest
