"""Layouts by name. A generation stores the name and the parameters that it was made with, for good."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from holdfast.model.errors import SettingsError
from holdfast.storage.rocks.layouts.bitmask import (
    DEFAULT_BITS,
    DEFAULT_EPOCH_MESSAGES,
    DEFAULT_LEVELS,
    BitmaskLayout,
)
from holdfast.storage.rocks.layouts.bitmask_curve import TIME_BITS, Curve, interleaved, shifted, z_order
from holdfast.storage.rocks.layouts.indexed import IndexedLayout
from holdfast.storage.rocks.layouts.layout import Layout
from holdfast.storage.rocks.layouts.learned import DEFAULT_CYCLE_BYTES, DEFAULT_CYCLE_MESSAGES, LearnedLayout
from holdfast.storage.rocks.layouts.paged import PagedLayout
from holdfast.storage.rocks.layouts.segments import SegmentFamily
from holdfast.storage.rocks.layouts.timeline import TimelineLayout
from holdfast.topics.learned import (
    DEFAULT_MAX_NODES,
    DEFAULT_MAX_PLACES,
    DEFAULT_MAX_STREAMS,
    DEFAULT_THRESHOLDS,
    LearnedTopics,
)
from holdfast.topics.learned_ids import FINGERPRINT_BITS

Parameters = Mapping[str, int | list[int] | tuple[int, ...]]

_CURVES: Final[dict[str, Callable[[int, int], Curve]]] = {
    "bitmask": shifted,
    "bitmask-zorder": z_order,
    "interleaved": interleaved,
}
_STRUCTURE: Final[dict[str, int]] = {
    "max_streams": DEFAULT_MAX_STREAMS,
    "max_nodes": DEFAULT_MAX_NODES,
    "max_places": DEFAULT_MAX_PLACES,
    "id_bits": FINGERPRINT_BITS,
    "hash_bits": FINGERPRINT_BITS,
}
_CYCLE: Final = {"cycle_messages": DEFAULT_CYCLE_MESSAGES, "cycle_bytes": DEFAULT_CYCLE_BYTES}
_BITMASK: Final = {"levels": DEFAULT_LEVELS, "bits": DEFAULT_BITS, "epoch_messages": DEFAULT_EPOCH_MESSAGES}

#: Every layout with its whole-number parameters; learned streams have `thresholds` besides.
_DEFAULTS: Final[dict[str, dict[str, int]]] = {
    "timeline": {},
    "learned": {**_STRUCTURE, **_CYCLE},
    "paged": {},
    "indexed": _STRUCTURE,
    **dict.fromkeys(_CURVES, _BITMASK),
}
ALL_LAYOUTS: Final = tuple(_DEFAULTS)
#: Those that a user may choose; the others are for comparison in the bench.
LAYOUTS: Final = ("timeline", "learned", "bitmask", "paged")
#: Those that place messages by what was learnt about topics, and those that learn.
PLACING: Final = tuple(name for name, numbers in _DEFAULTS.items() if "max_streams" in numbers)
LEARNING: Final = (*PLACING, "paged")


def make_layout(
    name: str,
    parameters: Parameters,
    inherited: LearnedTopics | None = None,
    given: Sequence[bytes] = (),
    segments: SegmentFamily | None = None,
) -> Layout:
    """A layout for one shard's generation; SettingsError names what is wrong.

    `inherited` is what `LearnedTopics.inherit()` of the generation before gave. It is for the writer of a new
    generation alone, and may have been learnt with other parameters. So are the patterns that are `given`. `segments`
    is where a reader of the layout `paged` finds what is not in commit pages any more.
    """
    numbers = _numbers(name, parameters)
    if name == "timeline":
        return TimelineLayout()
    if name in _CURVES:
        levels, bits, epoch_messages = numbers["levels"], numbers["bits"], numbers["epoch_messages"]
        if levels < 1 or epoch_messages < 1 or not 1 <= bits <= TIME_BITS:
            raise SettingsError(
                f"layout {name}: {levels} levels of {bits} bits, {epoch_messages} messages an epoch; right would be "
                f"1 level or more, 1 to {TIME_BITS} bits, 1 message or more"
            )
        return BitmaskLayout(name, _CURVES[name](levels, bits), epoch_messages)
    topics = _topics(numbers, parameters.get("thresholds", DEFAULT_THRESHOLDS))
    topics.begin_with(given)
    if inherited is not None:
        topics.adopt(inherited)
    if name == "paged":
        return PagedLayout(segments, topics)
    if name == "indexed":
        return IndexedLayout(topics, numbers["hash_bits"])
    return LearnedLayout(topics, numbers["cycle_messages"], numbers["cycle_bytes"], numbers["hash_bits"])


def _numbers(name: str, parameters: Parameters) -> dict[str, int]:
    defaults = _DEFAULTS.get(name)
    if defaults is None:
        raise SettingsError(f"there is no layout {name!r}; there are {', '.join(ALL_LAYOUTS)}")
    numbers = dict(defaults)
    for key, value in parameters.items():
        if key == "thresholds" and name in LEARNING:
            continue
        if key not in defaults:
            known = ", ".join(defaults) or "no parameters"
            raise SettingsError(f"layout {name} has no parameter {key!r}; it has {known}")
        if not isinstance(value, int):
            raise SettingsError(f"layout {name}: {key} is {value!r}, a whole number would be right")
        numbers[key] = value
    return numbers


def _topics(numbers: dict[str, int], thresholds: int | list[int] | tuple[int, ...]) -> LearnedTopics:
    by_depth = (thresholds,) if isinstance(thresholds, int) else tuple(thresholds)
    if not numbers:
        return LearnedTopics(by_depth)
    return LearnedTopics(
        by_depth, numbers["max_streams"], numbers["max_nodes"], numbers["max_places"], numbers["id_bits"]
    )
