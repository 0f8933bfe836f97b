"""What a member of a group may ask for by user properties."""

import pytest

from holdfast.broker.subscriptions.share_request import parse_share_request
from holdfast.model.errors import PeerError
from holdfast.model.reasons import TOPIC_FILTER_INVALID
from holdfast.topics.filters import parse_filter

GROUP = parse_filter(b"$share/g/a")


def test_a_member_may_say_nothing() -> None:
    asked = parse_share_request(parse_filter(b"a"), (("other", "x"),), replay=False)

    assert (asked.window, asked.steal_after_us, asked.replay) == (0, 0, False)


@pytest.mark.parametrize(("text", "seconds"), [("1", 1), ("30s", 30), ("5m", 300), ("2h", 7200), ("7d", 7 * 86_400)])
def test_a_member_may_say_how_it_works(text: str, seconds: int) -> None:
    asked = parse_share_request(GROUP, (("share-window", "65535"), ("share-steal-after", text)), replay=True)

    assert (asked.window, asked.steal_after_us, asked.replay) == (65_535, seconds * 1_000_000, True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("share-window", "0"),
        ("share-window", "65536"),
        ("share-window", "many"),
        ("share-window", ""),
        ("share-steal-after", "0s"),
        ("share-steal-after", "8d"),
        ("share-steal-after", "1w"),
        ("share-steal-after", "99999999999"),
    ],
)
def test_values_out_of_range_are_refused(name: str, value: str) -> None:
    with pytest.raises(PeerError, match=name) as refused:
        parse_share_request(GROUP, ((name, value),), replay=False)
    assert refused.value.reason == TOPIC_FILTER_INVALID


def test_a_filter_without_a_group_has_neither() -> None:
    with pytest.raises(PeerError, match="without a group"):
        parse_share_request(parse_filter(b"a"), (("share-window", "1"),), replay=False)
