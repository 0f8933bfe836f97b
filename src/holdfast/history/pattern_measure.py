"""What patterns would bring: a shard's newest messages, as its open generation has them and as the next one would.

now        the structure of the newest generation, as it is stored
inherited  what the next one would begin with by itself
given      what it would begin with if it is given the patterns
"""

import tempfile
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from holdfast.durable.log import FOR_EVER
from holdfast.history.reader import HistoryReader
from holdfast.model.errors import PermanentError
from holdfast.records.generations import Generation
from holdfast.records.messages import stored_serial, stored_topic
from holdfast.storage.rocks.layouts.making import LEARNING
from holdfast.storage.rocks.layouts.streams import stored_structure
from holdfast.storage.rocks.pattern_trial import Levels, Question, Trial, try_out
from holdfast.storage.rocks.zone_generations import LiveGeneration
from holdfast.topics.filters import REST, levels_match
from holdfast.topics.learned import LearnedTopics
from holdfast.topics.learned_trie import is_varying
from holdfast.topics.names import SEPARATOR, is_dollar

#: Messages that are tried out, at most: they are held in memory, and written three times.
MOST_MESSAGES: Final = 200_000
#: Devices that are asked for, one after the other.
_SAMPLES: Final = 20

NOW: Final = "now"
INHERITED: Final = "inherited"
GIVEN: Final = "given"


class Measured:
    """Trials by name, of so many messages of a shard."""

    def __init__(self, zone: str, shard: int, messages: int, trials: dict[str, Trial]) -> None:
        self.zone: Final = zone
        self.shard: Final = shard
        self.messages: Final = messages
        self.trials: Final = trials


def measure(
    folder: Path, zone: str, patterns: Sequence[str], progress: Callable[[str], None], most: int = MOST_MESSAGES
) -> Measured:
    """Requires: a zone that there is, and a pattern. PermanentError if it has a layout that does not learn."""
    given = [pattern.encode() for pattern in patterns]
    with HistoryReader.open(folder) as reader:
        record = reader.generations(zone)[-1]
        if record.layout not in LEARNING:
            raise PermanentError(f"zone {zone!r} has layout {record.layout}, which has no use for patterns")
        shard = max(record.shards, key=lambda number: (reader.heads()[number].serial, -number))
        values = _newest(reader, shard, most)
        if not values:
            raise PermanentError(f"shard {shard} of zone {zone!r} has no messages to measure with")
        structures = _structures(reader, record, shard, given)
    questions = _questions(given, [stored_topic(value) for value in values])
    trials: dict[str, Trial] = {}
    for name, topics in structures.items():
        progress(name)
        with tempfile.TemporaryDirectory(prefix="holdfast-patterns-") as place:
            trials[name] = try_out(Path(place), topics, values, questions)
    return Measured(zone, shard, len(values), trials)


def _newest(reader: HistoryReader, shard: int, most: int) -> list[bytes]:
    after = reader.heads()[shard].serial - most
    found: list[bytes] = []
    for part in reader.shard_parts(shard, 0, FOR_EVER):
        if part.last_serial > after or part.last_serial < 0:
            found += [value for value in reader.values(part) if stored_serial(value) > after]
    return found


def _structures(reader: HistoryReader, record: Generation, shard: int, given: list[bytes]) -> dict[str, LearnedTopics]:
    like = LiveGeneration(record).slices[shard].layout.learned()
    assert like is not None
    now = stored_structure(like, reader.family(record.family(shard)))
    inherited = now.fresh()
    inherited.adopt(now.inherit())
    wanted = now.fresh()
    wanted.begin_with(given)
    wanted.adopt(now.inherit())
    return {NOW: now, INHERITED: inherited, GIVEN: wanted}


def _questions(given: list[bytes], topics: list[bytes]) -> list[Question]:
    """Of the first pattern that varies, which is the busiest: some devices, and all of it; and everything."""
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
    asked = [Question("one device", tuple(devices))] if devices else []
    return [*asked, Question("one shape", (shape,)), Question("everything", ((REST,),))]


def _levels(pattern: bytes) -> Levels:
    return tuple(pattern.split(SEPARATOR))
