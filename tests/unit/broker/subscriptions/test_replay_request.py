"""What a client asks for when it subscribes to the past."""

import pytest

from holdfast.broker.subscriptions.replay_request import parse_replay_request, parse_speed
from holdfast.durable.log import NO_END
from holdfast.model.errors import PeerError
from holdfast.topics.filters import parse_filter

NOW_US = 1_700_000_000_000_000
HOUR_US = 3_600_000_000


def test_no_replay_is_asked_for_by_a_plain_filter() -> None:
    assert parse_replay_request(parse_filter(b"a/#"), (("other", "x"),), NOW_US, NOW_US) is None


def test_a_filter_with_replay_in_front_says_where_to_begin() -> None:
    span = parse_replay_request(parse_filter(b"$replay/-2h/a/#"), (), NOW_US, NOW_US)
    assert span is not None
    assert (span.from_us, span.until_us, span.speed) == (NOW_US - 2 * HOUR_US, NO_END, 0)


def test_user_properties_say_from_when_until_when_how_fast_and_where_the_end_is_told() -> None:
    asked = (("replay-from", "-2h"), ("replay-until", "-1h"), ("replay-speed", "0.5"), ("replay-end", "done"))
    span = parse_replay_request(parse_filter(b"a"), asked, NOW_US, NOW_US)
    assert span is not None
    assert (span.until_us, span.speed, span.end_topic) == (NOW_US - HOUR_US, 500_000, b"done")
    assert ("replay-until", str(NOW_US - HOUR_US)) in span.suback_properties(NOW_US)


def test_an_end_that_is_latest_is_behind_everything_that_is_stored() -> None:
    asked = (("replay-from", "earliest"), ("replay-until", "latest"))
    span = parse_replay_request(parse_filter(b"a"), asked, NOW_US, NOW_US + 5)
    assert span is not None
    assert span.until_us == NOW_US + 5
    assert span.first_us() == 0, "at the first message there is"


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("a", (("replay-speed", "2"),)),
        ("$share/g/a", (("replay-from", "-1h"), ("replay-until", "-1s"))),
        ("$share/g/a", (("replay-from", "-1h"), ("replay-speed", "2"))),
        ("a", (("replay-from", "-1h"), ("replay-end", "a/#"))),
    ],
)
def test_what_cannot_be_given_is_refused(text: str, asked: tuple[tuple[str, str], ...]) -> None:
    with pytest.raises(PeerError):
        parse_replay_request(parse_filter(text.encode()), asked, NOW_US, NOW_US)


def test_speeds_are_numbers_above_zero_or_max() -> None:
    assert [parse_speed(text) for text in ("max", "1", "10", "0.000001")] == [0, 1_000_000, 10_000_000, 1]
    for text in ("", "0", "-1", "1.", "1e3", "1.0000001", "fast"):
        with pytest.raises(PeerError):
            parse_speed(text)
