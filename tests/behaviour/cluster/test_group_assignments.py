"""QoS 2 in a group of a cluster: a message is one member's alone from its `Assign` on, whoever dies before PUBCOMP."""

from collections import Counter

import pytest

from holdfast.model.protocol import PUBCOMP, PUBREC
from holdfast.records.cluster.vnode_keys import vnode_of
from holdfast.wire.packets import Ack, Publish
from tests.cluster_groups import FILTER, GROUP, KEPT, assigned_rows, kept, leader, led_world, publish, work


def test_an_assigned_message_goes_to_no_other_member_when_its_node_dies() -> None:
    """A14, Q10: between `Assign` and PUBCOMP it is this member's, at whatever node it comes back."""
    with led_world() as world:
        old = leader(world)
        others = [node for node in world.nodes if node is not old]
        member, other = kept(others[0], "member"), kept(others[1], "other")
        member.subscribe(FILTER, qos=2)
        publish(old.connect("writer"), [b"job"], 2)
        assert member.take(Publish).payload == b"job"
        other.subscribe(FILTER, qos=2)
        others[0].kill()
        others[0].fence()
        world.lead(20)
        assert other.inbox == []
        again = kept(others[1], "member")
        assert work(again) == [b"job"]
        world.lead(5)
        assert work(again, other) == []


@pytest.mark.parametrize("completes", [True, False])
def test_an_assignment_that_is_heard_of_late_is_not_begun_again(*, completes: bool) -> None:
    """A21: the new owner is behind in the group's vnode; the message is done, or in flight, in the member's."""
    with led_world() as world:
        group_log = world.log_of(GROUP)
        name, writer_name = [name for name in "abcdefgh" if world.log_of(name) is not group_log][:2]
        one, two = world.nodes[1], world.nodes[2]
        member = kept(one, name)
        member.subscribe(FILTER, qos=2)
        writer = world.nodes[0].connect(writer_name)
        late = two.appliers[vnode_of(GROUP, len(world.logs))]._reading
        group_log.hold_reads = True
        publish(writer, [b"job"], 2)
        for _turn in range(5):
            for reading in group_log.readings():
                if reading is not late:
                    world.do(lambda reading=reading: group_log.deliver(reading))  # type: ignore[misc]
        packet = member.take(Publish)
        assert packet.payload == b"job"
        if completes:
            member.send(Ack(PUBREC, packet.packet_id))
            member.inbox.clear()
            member.send(Ack(PUBCOMP, packet.packet_id))
        again = kept(two, name)
        got = work(again)
        group_log.hold_reads = False
        for reading in group_log.readings():
            world.do(lambda reading=reading: group_log.deliver(reading))  # type: ignore[misc]
        world.lead(3)
        got += work(again)
        assert got == ([] if completes else [b"job"])


def test_a_successor_of_a_session_inherits_no_assignment() -> None:
    """A21: a member is a session, not a client id. What the session before it was assigned is counted as dropped."""
    with led_world() as world:
        member = kept(world.nodes[1], "member", receive_maximum=1)
        member.subscribe(FILTER, qos=2)
        publish(world.nodes[0].connect("writer"), [b"1"], 2)
        assert member.take(Publish).payload == b"1"
        fresh = world.nodes[2].connect("member", clean_start=True, properties=KEPT)
        assert not fresh.connack.session_present
        assert fresh.subscribe(FILTER, qos=2) == [2]
        publish(world.nodes[0].connect("writer-2"), [b"2"], 2)
        world.lead(5)
        assert work(fresh) == [b"2"]
        world.lead(5)
        assert assigned_rows(world) == [], "nothing of it stays"
        assert sum(node.broker.exchange.counters.drops.get("session_ended", 0) for node in world.nodes) > 0


def test_settled_assignments_are_forgotten() -> None:
    with led_world() as world:
        members = [kept(node, f"worker-{node.life.node}") for node in world.nodes]
        for member in members:
            member.subscribe(FILTER, qos=2)
        jobs = [b"%d" % number for number in range(12)]
        publish(world.nodes[0].connect("writer"), jobs, 2)
        assert Counter(work(*members)) == Counter(jobs)
        world.lead(4)
        assert assigned_rows(world) == []
