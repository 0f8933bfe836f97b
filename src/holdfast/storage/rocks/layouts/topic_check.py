"""Whether a stored message's topic matches a filter, for many messages and one filter."""

from collections.abc import Callable, Iterator
from typing import Final

from holdfast.records.messages import stored_position, stored_topic
from holdfast.storage.rocks.layouts.layout import NOTHING_YET, Passed
from holdfast.topics.filters import ONE, REST, levels_match
from holdfast.topics.learned_trie import StreamMatch
from holdfast.topics.names import SEPARATOR, is_dollar

TopicCheck = Callable[[bytes], bool]

#: Records without a match after which a reader hears that nothing has come yet.
_BREATH: Final = 1_000
#: Topics whose answer is remembered during one read: most messages repeat a topic.
_MAX_REMEMBERED: Final = 10_000


def filter_check(levels: tuple[bytes, ...]) -> TopicCheck:
    """The full check: does a topic match the filter? No levels at all match everything."""
    if not levels:
        return lambda _topic: True
    if ONE not in levels and levels[-1] != REST:
        return SEPARATOR.join(levels).__eq__
    remembered: dict[bytes, bool] = {}

    def check(topic: bytes) -> bool:
        found = remembered.get(topic)
        if found is None:
            if len(remembered) >= _MAX_REMEMBERED:
                remembered.clear()
            found = levels_match(levels, topic.split(SEPARATOR), dollar=is_dollar(topic))
            remembered[topic] = found
        return found

    return check


def token_check(match: StreamMatch) -> TopicCheck:
    """For topics of a stream that the filter reaches: has it the tokens that the filter asks for?"""
    wanted = [(level, token) for level, token in zip(match.levels, match.wanted, strict=True) if token is not None]
    if len(wanted) == 1:
        ((only_level, only_token),) = wanted
        return lambda topic: topic.split(SEPARATOR, only_level + 1)[only_level] == only_token

    def check(topic: bytes) -> bool:
        tokens = topic.split(SEPARATOR)
        return all(tokens[level] == token for level, token in wanted)

    return check


def only(values: Iterator[bytes], check: TopicCheck) -> Iterator[bytes]:
    """The messages whose topic passes; an empty value now and then while none does."""
    passed = 0
    for value in values:
        if check(stored_topic(value)):
            passed = 0
            yield value
        else:
            passed += 1
            if passed == _BREATH:
                passed = 0
                yield NOTHING_YET


def only_back(values: Iterator[bytes], check: TopicCheck | None = None) -> Iterator[Passed]:
    """The messages whose topic passes, or all of them, with their positions; now and then how far down it has come."""
    passed = 0
    for value in values:
        if check is None or check(stored_topic(value)):
            passed = 0
            yield stored_position(value), value
        else:
            passed += 1
            if passed == _BREATH:
                passed = 0
                yield stored_position(value), NOTHING_YET
