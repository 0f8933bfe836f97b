"""What members of a group ask for about their work: how much at once, and how long it may rest with one of them."""

from pathlib import Path

import pytest

from holdfast.broker.policy import Policy, Sessions
from holdfast.exchange.delivery.group_delivery import ROUND_ROBIN
from holdfast.model.protocol import PUBACK, PUBCOMP, PUBREC, PUBREL
from holdfast.model.reasons import TOPIC_FILTER_INVALID
from holdfast.wire.packets import Ack, Publish
from tests.disk_world import DiskWorld, back, payloads
from tests.group_world import join, leave, work
from tests.slow_world import kept
from tests.world import Peer, World

pytestmark = pytest.mark.compiled

LATER_US = 1_700_000_100_000_000
#: Each in turn: who has work is known without looking at how much the others have.
IN_TURN = Policy(sessions=Sessions(share_strategy=ROUND_ROBIN))


def send(world: World, *payloads: bytes, qos: int = 1) -> None:
    world.connect("writer").send(*(Publish("a", payload, qos, i + 1) for i, payload in enumerate(payloads)))


def take(peer: Peer) -> list[tuple[int, bytes]]:
    """What came, not acknowledged."""
    return [(message.packet_id, message.payload) for message in peer.take_all(Publish)]


def test_a_member_takes_no_more_than_its_share_window_at_once_and_the_other_gets_the_rest() -> None:
    """L15: both of them work, each as much as it wants."""
    with World(IN_TURN) as world:
        slow, quick = kept(world, "slow"), kept(world, "quick")
        join(slow, share_window="2")
        join(quick)
        numbers = [b"%d" % number for number in range(10)]
        send(world, *numbers)
        held = take(slow)
        assert len(held) == 2
        (rest,) = work(quick)
        assert len(rest) == 8
        assert sorted(rest + [payload for _id, payload in held]) == numbers
        slow.send(Ack(PUBACK, held[0][0]))
        send(world, b"x", b"y", b"z")
        assert len(take(slow)) == 1, "room for one more"


def test_a_share_window_bounds_the_work_of_its_group_alone() -> None:
    with World() as world:
        peer = kept(world, "one")
        join(peer, share_window="1")
        peer.subscribe("b", qos=1)
        send(world, b"1", b"2")
        world.connect("writer").send(Publish("b", b"own", 1, 1), Publish("b", b"own too", 1, 2))
        assert [payload for _id, payload in take(peer)] == [b"1", b"own", b"own too"]


def test_work_that_rests_longer_than_the_group_allows_goes_to_another_member() -> None:
    """L15: both members get work, the one that rests does not finish it, the other one does."""
    with World(IN_TURN) as world:
        slow, quick = kept(world, "slow"), kept(world, "quick")
        join(slow, share_steal_after="30s")
        join(quick)
        send(world, b"1", b"2", b"3", b"4")
        resting = take(slow)
        (done,) = work(quick)
        assert len(resting) == len(done) == 2
        world.advance(29)
        assert quick.inbox == [], "not yet"
        world.advance(1.2)
        (stolen,) = work(quick)
        assert stolen == [payload for _id, payload in resting]
        assert sorted(done + stolen) == [b"1", b"2", b"3", b"4"]
        assert world.broker.exchange.counters.stolen == 2


def test_a_late_acknowledgement_of_stolen_work_is_harmless_and_makes_room() -> None:
    """[MQTT-3.3.4-9]: until it comes, the message counts toward the client's receive maximum."""
    with World(IN_TURN) as world:
        slow, quick = kept(world, "slow", receive_maximum=1), kept(world, "quick", receive_maximum=1)
        join(slow, share_steal_after="5s")
        join(quick)
        send(world, b"1", b"2")
        ((resting_id, resting),) = take(slow)
        ((packet_id, _payload),) = take(quick)
        world.advance(6)
        assert quick.inbox == [], "it has no room"
        quick.send(Ack(PUBACK, packet_id))
        world.advance(2)
        ((packet_id, stolen),) = take(quick)
        assert stolen == resting
        send(world, b"3")
        assert slow.inbox == [], "it has one unacknowledged, and takes one"
        slow.send(Ack(PUBACK, resting_id))
        assert [payload for _id, payload in take(slow)] == [b"3"]
        quick.send(Ack(PUBACK, packet_id))
        world.advance(600)
        assert not slow.closed
        assert not quick.closed


def test_stolen_work_is_not_sent_again_to_the_member_it_was_taken_from() -> None:
    with World(IN_TURN) as world:
        slow, quick = kept(world, "slow"), kept(world, "quick")
        join(slow, share_steal_after="5s")
        join(quick)
        send(world, b"1", b"2")
        take(slow)
        assert len(work(quick)[0]) == 1
        world.advance(6)
        assert len(work(quick)[0]) == 1
        slow.drop()
        assert quick.inbox == [], "nothing to give back"
        assert kept(world, "slow").inbox == []


def test_work_in_a_members_hands_is_stolen_again_from_who_rests_with_it_too() -> None:
    with World(IN_TURN) as world:
        peers = [kept(world, name) for name in ("one", "two", "three")]
        join(peers[0], share_steal_after="10")
        join(peers[1])
        join(peers[2])
        send(world, b"x")
        seen = []
        for _round in range(2):
            holder = next(peer for peer in peers if peer.inbox)
            seen.append(holder)
            take(holder)
            world.advance(11)
        assert seen[0] is not seen[1]
        assert any(peer.inbox for peer in peers), "a third time"


def test_qos_2_work_is_never_stolen() -> None:
    """Q10: exactly once is more than early."""
    with World(IN_TURN) as world:
        slow, quick = kept(world, "slow"), kept(world, "quick")
        join(slow, qos=2, share_steal_after="1s")
        join(quick, qos=2)
        send(world, b"1", b"2", qos=2)
        ((packet_id, _payload),) = take(slow)
        take(quick)
        world.advance(3600)
        assert quick.inbox == []
        slow.send(Ack(PUBREC, packet_id))
        assert slow.take(Ack).kind == PUBREL
        slow.send(Ack(PUBCOMP, packet_id))
        assert world.broker.exchange.counters.stolen == 0


def test_nobody_steals_from_the_only_member_nor_in_a_group_that_did_not_ask_for_it() -> None:
    with World() as world:
        only = kept(world, "only")
        join(only, share_steal_after="1s")
        send(world, b"1")
        take(only)
        world.advance(100)
        assert only.inbox == []
        leave(only)
        one, two = kept(world, "one"), kept(world, "two")
        join(one)
        join(two)
        send(world, b"1", b"2")
        take(one)
        take(two)
        world.advance(1_000_000)
        assert one.inbox == two.inbox == []


def test_the_first_member_that_says_so_says_how_long_work_may_rest() -> None:
    with World() as world:
        one, two, three = (kept(world, name) for name in ("one", "two", "three"))
        assert join(one).properties.user_properties == ()
        for peer, asked in ((two, "2m"), (three, "1h")):
            assert join(peer, share_steal_after=asked).properties.user_properties == (("share-steal-after", "120"),)


@pytest.mark.parametrize(
    "user",
    [
        ("share_window", "0"),
        ("share_window", "65536"),
        ("share_window", "-1"),
        ("share_window", "many"),
        ("share_window", ""),
        ("share_steal_after", "0s"),
        ("share_steal_after", "8d"),
        ("share_steal_after", "-5s"),
        ("share_steal_after", "1w"),
        ("share_steal_after", "s"),
        ("share_steal_after", ""),
    ],
)
def test_a_bad_value_is_refused_with_what_would_be_right(user: tuple[str, str]) -> None:
    name, value = user
    with World() as world:
        peer = kept(world, "one")
        suback = join(peer, "$share/g/a", 1, **{name: value})
        assert list(suback.reasons) == [TOPIC_FILTER_INVALID]
        reason = suback.properties.reason_string or ""
        assert name.replace("_", "-") in reason
        assert "from 1" in reason


def test_what_is_for_groups_is_refused_elsewhere() -> None:
    with World() as world:
        suback = join(kept(world, "one"), "a", share_window="5")
        assert list(suback.reasons) == [TOPIC_FILTER_INVALID]
        assert "$share/<group>/<filter>" in (suback.properties.reason_string or "")


def test_a_share_window_and_the_time_before_stealing_survive_a_restart(tmp_path: Path) -> None:
    world = DiskWorld(tmp_path, IN_TURN)
    join(kept(world, "slow"), share_window="1", share_steal_after="30s")
    join(kept(world, "quick"))
    world.crash()
    with DiskWorld(tmp_path, IN_TURN, start_us=LATER_US) as world:
        slow, quick = back(world, "slow"), back(world, "quick")
        send(world, b"1", b"2", b"3", b"4")
        resting = take(slow)
        assert len(resting) == 1
        assert len(payloads(quick)) == 3
        world.advance(31)
        assert payloads(quick) == [resting[0][1]]
        world.tick()
    with DiskWorld(tmp_path, IN_TURN, start_us=LATER_US + 1_000_000_000) as world:
        assert payloads(back(world, "quick")) == [], "what was stolen and acknowledged is done"
