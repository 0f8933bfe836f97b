"""What `holdfast replay` publishes again, and how far it says it is."""

import asyncio
from typing import cast

import pytest

from holdfast.cli.replay_transfer import ReplayedMessage, ReplayPlace, ReplaySource, ReplaySummary, Republisher
from holdfast.client.asyncio_client import Client
from holdfast.topics.filters import parse_filter
from holdfast.wire.packets import Publish
from holdfast.wire.properties import NO_PROPERTIES, Properties


class Published:
    """A client that notes what it is to publish."""

    def __init__(self) -> None:
        self.topics: list[str] = []
        self.properties = NO_PROPERTIES

    async def publish(self, topic: str, _payload: bytes, _qos: int, *, properties: Properties) -> None:
        self.topics.append(topic)
        self.properties = properties


def found(
    topic: str, time_us: int, offset: str | None = "0:1", properties: Properties = NO_PROPERTIES
) -> ReplayedMessage:
    return ReplayedMessage(Publish(topic, b"x", properties=properties), time_us, offset)


@pytest.mark.parametrize(
    ("message", "own_since_us", "copied"),
    [
        (found("a", 150), 100, True),
        (found("copy/a", 99), 100, True),
        (found("copy/a", 100), 100, False),
        (found("copy/a", 0, None), 100, False),
        (found("copy/a", 150), None, True),
    ],
)
def test_copies_of_this_run_are_not_copied_again(
    message: ReplayedMessage, own_since_us: int | None, copied: bool
) -> None:
    client = Published()
    republisher = Republisher(cast("Client", client), "copy/", 1, own_since_us=own_since_us)
    assert asyncio.run(republisher.take(message, more=False)) is copied
    assert client.topics == ([f"copy/{message.message.topic}"] if copied else [])


def test_a_copy_has_the_properties_of_the_original_and_its_time() -> None:
    client = Published()
    kept = Properties(
        payload_format_indicator=1,
        message_expiry_interval=7,
        content_type="c",
        response_topic="r",
        correlation_data=b"d",
        subscription_identifiers=(3,),
        user_properties=(("a", "1"), ("a", "2")),
    )
    republisher = Republisher(cast("Client", client), "copy/", 1, own_since_us=None)
    asyncio.run(republisher.take(found("a", 42, properties=kept), more=False))
    assert client.properties == Properties(
        payload_format_indicator=1,
        message_expiry_interval=7,
        content_type="c",
        response_topic="r",
        correlation_data=b"d",
        user_properties=(("a", "1"), ("a", "2"), ("ts", "42")),
    )


def test_the_share_is_that_of_time_from_the_first_message_on() -> None:
    source = ReplaySource(cast("Client", None), parse_filter(b"a"), "earliest", "latest", "max")
    source.from_us, source.until_us = 1, 2_000
    summary = ReplaySummary()
    assert source.share(summary) is None
    summary.add(found("a", 1_000))
    assert source.share(summary) == 0.0
    summary.add(found("a", 1_250))
    assert source.share(summary) == 0.25
    source.until_us = 0
    assert source.share(summary) is None


def test_a_place_is_the_last_position_with_the_shards_that_had_a_message_there() -> None:
    summary = ReplaySummary()
    for offset in ("0:5", "1:7", "2:7"):
        summary.add(found("a", 5, offset))
    assert summary.place is None, "nothing is acknowledged yet"
    summary.settled()
    place = ReplayPlace.parse(str(summary.place))
    assert str(place) == "1:7,2:7"
    done = ["0:5", "1:6", "3:6", "1:7", "2:7"]
    assert [place.has(offset) for offset in done] == [True] * 5
    assert [place.has(offset) for offset in ("0:7", "1:8", None)] == [False] * 3


def test_a_run_that_goes_on_has_the_place_of_the_run_before() -> None:
    summary = ReplaySummary(ReplayPlace(7, frozenset({1})))
    summary.settled()
    assert summary.as_progress()["place"] == "1:7"
    summary.add(found("a", 5, "0:7"))
    summary.settled()
    assert summary.as_progress()["place"] == "0:7,1:7"


@pytest.mark.parametrize("text", ["", "7", "a:7", "0:", "0:-7", "0:1,1:2", "0:1,", "\u0661:1"])
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no SHARD:POSITION|more than one position"):
        ReplayPlace.parse(text)
