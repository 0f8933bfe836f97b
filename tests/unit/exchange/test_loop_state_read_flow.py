"""Which connections are read from."""

import pytest

from holdfast.exchange.client import Channel
from holdfast.exchange.loop_state import ReadFlow


class CountingLink:
    """Knows whether it is read from."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def write(self, data: bytes) -> None:
        raise AssertionError(data)

    def close(self) -> None:
        self.calls.append("close")

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")


def test_a_channel_is_paused_and_resumed_once() -> None:
    flow, link = ReadFlow(), CountingLink()
    channel = Channel(link, 1000)
    flow.pause(channel)
    flow.pause(channel)
    flow.read_on(channel)
    flow.read_on(channel)
    assert link.calls == ["pause", "resume"]


@pytest.mark.parametrize("obstacle", ["congested", "blocked", "closed", "stalled"])
def test_a_channel_is_not_read_from_while_something_stands_against_it(obstacle: str) -> None:
    flow, link = ReadFlow(), CountingLink()
    channel = Channel(link, 1000)
    flow.pause(channel)
    setattr(channel, obstacle, True)
    flow.read_on(channel)
    assert link.calls == ["pause"]
    setattr(channel, obstacle, False)
    flow.read_on(channel)
    assert link.calls == ["pause", "resume"]


def test_a_channel_with_packets_left_over_waits_for_the_next_iteration() -> None:
    flow, link = ReadFlow(), CountingLink()
    channel = Channel(link, 1000)
    flow.wait(channel)
    flow.read_on(channel)
    assert link.calls == ["pause"]
    assert flow.take_waiting() == [channel]
    flow.read_on(channel)
    assert link.calls == ["pause", "resume"]


def test_a_channel_without_credit_is_granted_before_it_waits() -> None:
    flow, link = ReadFlow(), CountingLink()
    channel = Channel(link, 1000)
    channel.publish_credit = 0
    flow.wait(channel)
    assert flow.take_waiting() == []
    assert link.calls == ["pause"]
