"""Bugs of ours, and what a client could turn against the broker: one failure stays one failure."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest

from holdfast.broker.access.authenticator import Authenticator, Verdict
from holdfast.broker.connections.origin import Origin
from holdfast.broker.deadlines import Deadlines
from holdfast.model.clock import ManualClock
from holdfast.model.protocol import PUBACK, V5
from holdfast.wire.codec import encode
from holdfast.wire.packets import (
    Ack,
    Connack,
    Connect,
    Publish,
    Will,
)
from tests.slow_world import MOUNTED
from tests.world import World

pytestmark = pytest.mark.compiled


def test_an_action_that_fails_does_not_stop_all_deadlines() -> None:
    clock = ManualClock()
    deadlines = Deadlines(clock)
    fired: list[str] = []

    def fail() -> None:
        raise ValueError("a bug")

    deadlines.after(1000, fail)
    deadlines.after(1000, lambda: fired.append("at the same time"))
    clock.advance(1000)
    deadlines.fire()
    deadlines.after(1000, lambda: fired.append("later"))
    clock.advance(1000)
    deadlines.fire()
    assert fired == ["at the same time", "later"]


def test_the_will_of_a_mounted_client_cannot_break_the_broker() -> None:
    """The topic fits, the mounted one does not; PeerError escapes from `lost`, which has not detached the session."""
    with World() as world:
        peer = world.peer(V5, MOUNTED)
        peer.send(Connect(V5, "c", will=Will("w" * 65_534, b"")))
        if peer.closed:
            return  # refused: as good
        peer.take(Connack)
        peer.drop()
        assert "c" not in world.broker.sessions.clients


def test_an_error_of_our_own_while_connecting_does_not_leave_the_connection_hanging() -> None:
    class Broken(Authenticator):
        async def authenticate(
            self,
            origin: Origin,
            client_id: str,
            user_name: str | None,
            password: bytes | None,
            gone: Callable[[], bool] = lambda: False,
        ) -> Verdict:
            await asyncio.sleep(0)
            raise RuntimeError("a bug")

    with World(authenticator=Broken()) as world:
        peer = world.peer()
        peer.send(Connect(V5, "c"))
        world.advance(3600)
        assert peer.closed


def test_an_error_of_our_own_in_one_effect_does_not_take_the_answers_of_others() -> None:
    with World() as world:
        one, two = world.connect("one"), world.connect("two")

        def fail() -> None:
            raise RuntimeError("a bug")

        def act() -> None:
            world.broker.exchange.state.after_commit(one.channel, b"", fail)
            world.broker.received(two.channel, encode(Publish("a", b"", 1, 1), V5))

        with suppress(RuntimeError):
            world.do(act)
        world.settle()
        assert two.inbox == [Ack(PUBACK, 1, 0x10)]
