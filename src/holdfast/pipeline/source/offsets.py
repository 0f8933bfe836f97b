"""How far a stream has read: the last position and serial of each shard.

    {"0": [1793836800000123, 51], "3": [1793836800000200, 7]}          in a checkpoint of Spark; never change

1. [lo, hi) of two offsets is always the same set of messages: positions increase, and hi was durable.
2. A shard that is missing has not been read at all.
3. A serial of -1 is not known: a stream was started at a time.
"""

import json
from collections.abc import Mapping
from typing import Final

from holdfast.history.reader.reader import UNKNOWN
from holdfast.storage.rocks.log.published_heads import Head

EARLIEST: Final = "earliest"
LATEST: Final = "latest"

_EXAMPLE: Final = '{"0": [1793836800000123, 51]}'

#: The last message of a shard that was read.
Offset = Head
#: Before the first message of a shard.
NOWHERE: Final = Offset(-1, 0)

#: By shard.
Offsets = dict[int, Offset]


def to_json(offsets: Offsets) -> dict[str, list[int]]:
    """Always in the same order: Spark compares texts to find out whether there is something new."""
    return {str(shard): list(offsets[shard]) for shard in sorted(offsets)}


def from_json(found: Mapping[str, object]) -> Offsets:
    """What `to_json` made; ValueError if it is something else."""
    offsets = {}
    for shard, pair in found.items():
        numbers = pair if isinstance(pair, list) and all(type(number) is int for number in pair) else []
        if not shard.isdigit() or len(numbers) != 2 or numbers[0] < NOWHERE.position_us or numbers[1] < UNKNOWN:
            raise ValueError(f"{shard!r}: {pair!r} is not an offset; they look like {_EXAMPLE}")
        offsets[int(shard)] = Offset(*numbers)
    return offsets


def parse_offsets(text: str) -> Offsets:
    """Offsets that a person gave; ValueError if they are none."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ValueError(f"{text!r} is none of: earliest, latest, offsets like {_EXAMPLE}")
    return from_json(found)
