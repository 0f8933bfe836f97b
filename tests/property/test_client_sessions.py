"""The client's core against a model broker: any cut of the stream, any lost connection, any kill of the client."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.client.core import SessionOptions
from holdfast.client.message import encode_message
from holdfast.model.protocol import V5, V311
from holdfast.wire.packets import Publish
from tests.client_world import ClientWorld

VERSIONS = st.sampled_from((V311, V5))


def options(version: int) -> SessionOptions:
    return SessionOptions(
        version=version, client_id="c", clean_start=False, session_expiry_s=60, keep_alive_s=0, max_inflight=5
    )


def publish(world: ClientWorld, number: int, qos: int) -> None:
    """The number is the caller's place in its source: a kill tells it from which one to go on."""
    message = encode_message(f"q{qos}", b"%d" % number, qos, world.options.version)
    world.core.publish(message, b"%d" % number)


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 1 << 32), version=VERSIONS, window=st.sampled_from((None, 1, 3)))
def test_each_message_is_published_once_in_order_whatever_is_cut_or_killed(
    seed: int, version: int, window: int | None
) -> None:
    dice = random.Random(seed)
    world = ClientWorld(dice, options(version), window if version == V5 else None)
    count = 20
    world.connect()
    for _step in range(10_000):
        if int(world.core.state.source_offset or 0) >= count and not world.core.unacknowledged:
            break
        chance = dice.random()
        if chance < 0.02:
            world.kill()
        elif chance < 0.05:
            world.cut()
        elif not world.linked:
            world.connect()
        elif chance < 0.6 and world.core.has_room():
            number = int(world.core.state.source_offset or 0) + 1
            if number <= count:
                publish(world, number, 1 + number % 2)
                if dice.random() < 0.5:
                    world.flush()
        else:
            world.step()
        world.core.state.check_invariants()
    else:
        pytest.fail("no end")
    for qos in (1, 2):
        expected = [number for number in range(1, count + 1) if 1 + number % 2 == qos]
        got = [int(message.payload) for message in world.broker.published if message.qos == qos]
        if qos == 2:
            assert got == expected
        else:
            firsts = list(dict.fromkeys(got))
            assert firsts == expected


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 1 << 32), version=VERSIONS)
def test_an_acknowledged_qos_2_message_is_never_handed_over_again_and_none_is_lost(seed: int, version: int) -> None:
    dice = random.Random(seed)
    world = ClientWorld(dice, options(version))
    count = 20
    sent = 0
    acknowledged: list[int] = []
    world.connect()
    world.run()
    for _step in range(10_000):
        if sent >= count and not world.broker.owes:
            break
        chance = dice.random()
        if chance < 0.02:
            world.kill()
        elif chance < 0.05:
            world.cut()
        elif not world.linked:
            world.connect()
        elif chance < 0.3 and sent < count:
            sent += 1
            world.deliver(Publish("t", b"%d" % sent, 2, 1))
        elif chance < 0.6 and world.received:
            message = world.received.pop(0)
            number = int(message.payload)
            world.core.acknowledge(message)
            world.flush()  # durable from here on
            assert number not in acknowledged
            acknowledged.append(number)
        else:
            world.step()
    else:
        pytest.fail("no end")
    assert acknowledged == list(range(1, count + 1))


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 1 << 32), version=VERSIONS)
def test_a_state_equals_the_one_that_is_read_from_its_records(seed: int, version: int) -> None:
    dice = random.Random(seed)
    world = ClientWorld(dice, options(version))
    world.connect()
    for number in range(1, 40):
        if world.core.has_room():
            publish(world, number, dice.choice((1, 2)))
        world.flush()
        if dice.random() < 0.3:
            world.connect()
        world.step()
    world.flush()
    before = world.core.state
    world._durable += b"".join(world._volatile)
    world._volatile.clear()
    world.kill()
    after = world.core.state
    assert {i: (m.frame, m.released) for i, m in before.outgoing.items()} == {
        i: (m.frame, m.released) for i, m in after.outgoing.items()
    }
    assert (before.received, before.source_offset) == (after.received, after.source_offset)
