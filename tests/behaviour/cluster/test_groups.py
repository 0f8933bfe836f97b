"""Shared subscriptions of a cluster: one member gets each message, whichever node it is at and whichever node dies."""

from collections import Counter
from collections.abc import Iterable

import pytest

from holdfast.broker.policy import Policy, Sessions
from holdfast.model.message import Message
from holdfast.model.protocol import PUBACK, PUBCOMP, PUBREC
from holdfast.records.cluster.vnode_keys import vnode_of
from holdfast.topics.filters import parse_filter
from holdfast.wire.packets import Ack, Publish, Suback, Subscribe, Subscription, Unsuback, Unsubscribe
from holdfast.wire.properties import Properties
from tests.cluster_world import ClusterNode, ClusterWorld
from tests.world import Peer

KEPT = Properties(session_expiry_interval=100)
FILTER = "$share/workers/jobs/#"
GROUP = f"\0group\0{FILTER}"


def led_world(policy: Policy | None = None) -> ClusterWorld:
    """Three nodes, whose vnodes have leaders: node 1 leads both."""
    world = ClusterWorld(policy=policy)
    world.lead(3)
    return world


def leader(world: ClusterWorld) -> ClusterNode:
    vnode = vnode_of(GROUP, len(world.logs))
    return next(node for node in world.nodes if not node.dead and node.leaders[vnode].leads())


def kept(node: ClusterNode, name: str, *, receive_maximum: int | None = None) -> Peer:
    properties = Properties(session_expiry_interval=100, receive_maximum=receive_maximum)
    return node.connect(name, clean_start=False, properties=properties)


def publish(writer: Peer, payloads: Iterable[bytes], qos: int = 1) -> None:
    for number, payload in enumerate(payloads, 1):
        writer.send(Publish(f"jobs/{number}", payload, qos, number))


def work(*members: Peer) -> list[bytes]:
    """What the members were sent, acknowledged until nothing follows."""
    done: list[bytes] = []
    while any(peer.inbox for peer in members):
        for peer in members:
            for packet in list(peer.inbox):
                peer.inbox.remove(packet)
                if isinstance(packet, Publish):
                    done.append(packet.payload)
                    peer.send(Ack(PUBACK if packet.qos == 1 else PUBREC, packet.packet_id))
                elif isinstance(packet, Ack) and packet.kind not in (PUBACK, PUBREC, PUBCOMP):
                    peer.send(Ack(PUBCOMP, packet.packet_id))
    return done


@pytest.mark.parametrize("qos", [1, 2])
def test_each_message_goes_to_one_member_at_any_node(qos: int) -> None:
    with led_world() as world:
        members = [kept(node, f"worker-{node.life.node}") for node in world.nodes]
        for member in members:
            assert member.subscribe(FILTER, qos=qos) == [qos]
        jobs = [b"%d" % number for number in range(30)]
        publish(world.nodes[2].connect("writer"), jobs, qos)
        got = [work(member) for member in members]
        assert all(got), "every member has had some"
        done = [payload for one in got for payload in one]
        done += work(*members)
        assert Counter(done) == Counter(jobs)
        first, *others = world.digests()
        assert all(other == first for other in others)


def test_a_message_of_qos_0_goes_to_one_member() -> None:
    with led_world() as world:
        members = [kept(node, f"worker-{node.life.node}") for node in world.nodes]
        for member in members:
            member.subscribe(FILTER, qos=1)

        def pass_on(message: Message) -> None:
            for node in world.nodes:
                node.groups.pass_on([message])

        world.nodes[1].broker.exchange.intake.relay = pass_on
        world.nodes[1].connect("writer").send(Publish("jobs/1", b"now", 0))
        assert [payload for member in members for payload in member.payloads()] == [b"now"]


def test_suback_waits_until_the_group_stands() -> None:
    """A group that is not in its vnode's log would be forgotten with the node that knows of it."""
    with led_world() as world:
        member = kept(world.nodes[1], "worker")
        world.hold_appends()
        member.send(Subscribe(1, (Subscription(parse_filter(FILTER.encode()), 1),)))
        assert member.inbox == []
        world.let_appends_through()
        assert list(member.take(Suback).reasons) == [1]


def test_suback_says_0x80_if_the_leader_does_not_answer() -> None:
    with led_world() as world:
        world.hold_packets = True
        member = kept(world.nodes[1], "worker")
        member.send(Subscribe(1, (Subscription(parse_filter(FILTER.encode()), 1),)))
        world.advance(4)
        assert member.inbox == []
        world.advance(2)
        assert list(member.take(Suback).reasons) == [0x80]
        world.hold_packets = False
        world.packets.clear()
        assert member.subscribe(FILTER, qos=1) == [1], "it may try again"


def test_packets_of_a_client_wait_for_its_suback() -> None:
    with led_world() as world:
        world.hold_packets = True
        member = kept(world.nodes[1], "worker")
        lines = (Subscription(parse_filter(FILTER.encode()), 1),)
        member.send(Subscribe(1, lines), Unsubscribe(2, (parse_filter(FILTER.encode()),)))
        assert member.inbox == []
        while world.packets:
            world.do(world.carry_packet)
        assert list(member.take(Suback).reasons) == [1]
        member.take(Unsuback)


def test_a_group_begins_where_the_subscription_of_its_first_member_does() -> None:
    """What is published while SUBSCRIBE is on its way to the leader is the group's, though the leader hears later."""
    with led_world() as world:
        world.hold_packets = True
        member = kept(world.nodes[1], "worker")
        member.send(Subscribe(1, (Subscription(parse_filter(FILTER.encode()), 1),)))
        publish(world.nodes[2].connect("writer"), [b"early"])
        assert member.inbox == []
        world.hold_packets = False
        while world.packets:
            world.do(world.carry_packet)
        assert list(member.take(Suback).reasons) == [1]
        assert member.payloads() == [b"early"]


def test_what_no_member_takes_waits_in_the_log() -> None:
    with led_world() as world:
        member = kept(world.nodes[1], "worker")
        member.subscribe(FILTER, qos=1)
        member.drop()
        jobs = [b"%d" % number for number in range(5)]
        publish(world.nodes[2].connect("writer"), jobs)
        world.lead(2)
        again = kept(world.nodes[2], "worker")
        assert work(again) == jobs


def test_the_work_of_a_member_that_is_gone_goes_to_others() -> None:
    """L15: QoS 1 that was not acknowledged is given back when its connection ends."""
    with led_world() as world:
        one, two = kept(world.nodes[0], "one"), kept(world.nodes[1], "two", receive_maximum=1)
        one.subscribe(FILTER, qos=1)
        jobs = [b"%d" % number for number in range(4)]
        publish(world.nodes[2].connect("writer"), jobs)
        assert one.payloads() == jobs
        two.subscribe(FILTER, qos=1)
        assert two.inbox == []
        one.drop()
        world.lead(1)
        assert work(two) == jobs


def test_the_work_of_a_killed_node_is_given_out_again() -> None:
    """A20: silence for ten seconds is enough, whether the node is fenced or not."""
    with led_world() as world:
        one, two = kept(world.nodes[1], "one"), kept(world.nodes[2], "two")
        one.subscribe(FILTER, qos=1)
        jobs = [b"%d" % number for number in range(4)]
        publish(world.nodes[0].connect("writer"), jobs)
        assert one.payloads() == jobs
        two.subscribe(FILTER, qos=1)
        world.nodes[1].kill()
        world.lead(12)
        assert work(two) == jobs


@pytest.mark.parametrize("dies", [True, False])
@pytest.mark.parametrize("qos", [1, 2])
def test_a_group_goes_on_without_its_leader(qos: int, *, dies: bool) -> None:
    """A20: a leader that is dead, or beats and writes no tick, is replaced, and what was open is given out again."""
    with led_world() as world:
        old = leader(world)
        others = [node for node in world.nodes if node is not old]
        members = [kept(node, f"worker-{node.life.node}") for node in others]
        for member in members:
            assert member.subscribe(FILTER, qos=qos) == [qos]
        if dies:
            old.kill()
            old.fence()
        else:
            for one in old.leaders:
                one.is_ready = False
            world.hold_packets = True
        jobs = [b"%d" % number for number in range(10)]
        publish(others[0].connect("writer"), jobs, qos)
        world.packets.clear()
        world.hold_packets = False
        world.lead(20)
        assert leader(world) is not old
        done = work(*members)
        world.lead(3)
        done += work(*members)
        assert set(done) == set(jobs)
        if qos == 2:
            assert len(done) == len(jobs)


def test_a_pack_of_an_earlier_lead_is_ignored() -> None:
    with led_world() as world:
        old = leader(world)
        others = [node for node in world.nodes if node is not old]
        member = kept(others[0], "worker")
        member.subscribe(FILTER, qos=1)
        world.hold_packets = True
        publish(others[1].connect("writer"), [b"job"])
        late = list(world.packets)
        assert any(sender is old for sender, _node, _packet in late)
        world.packets.clear()
        world.hold_packets = False
        for one in old.leaders:
            one.is_ready = False
        world.lead(20)
        assert work(member) == [b"job"]
        world.packets[:] = late
        while world.packets:
            world.do(world.carry_packet)
        assert member.inbox == []


def test_a_group_ends_with_its_last_member() -> None:
    """The next group of the same name does not go on where the old one stopped."""
    with led_world() as world:
        member = kept(world.nodes[1], "worker")
        member.subscribe(FILTER, qos=1)
        member.send(Unsubscribe(2, (parse_filter(FILTER.encode()),)))
        member.take(Unsuback)
        world.lead(3)
        assert all(node.stores.sessions.load(GROUP) is None for node in world.nodes)
        publish(world.nodes[2].connect("writer"), [b"nobody's"])
        assert member.subscribe(FILTER, qos=1) == [1]
        publish(world.nodes[0].connect("writer-2"), [b"mine"])
        assert member.payloads() == [b"mine"]


@pytest.mark.parametrize("expiry_s", [0, 5])
def test_a_group_ends_with_the_session_of_its_last_member(expiry_s: int) -> None:
    with led_world() as world:
        properties = Properties(session_expiry_interval=expiry_s)
        member = world.nodes[1].connect("worker", clean_start=True, properties=properties)
        assert member.subscribe(FILTER, qos=1) == [1]
        assert leader(world).stores.sessions.load(GROUP) is not None
        member.drop()
        world.lead(12)
        assert leader(world).stores.sessions.load(GROUP) is None


def test_a_member_that_moves_stays_a_member() -> None:
    with led_world() as world:
        member = kept(world.nodes[1], "worker")
        member.subscribe(FILTER, qos=1)
        for node in (world.nodes[2], world.nodes[0], world.nodes[1]):
            member = kept(node, "worker")
            assert member.connack.session_present
            world.lead(2)
            publish(world.nodes[0].connect("writer"), [b"job"])
            assert work(member) == [b"job"]


def test_the_window_of_a_member_is_respected() -> None:
    with led_world() as world:
        one, two = kept(world.nodes[1], "one", receive_maximum=2), kept(world.nodes[2], "two", receive_maximum=3)
        one.subscribe(FILTER, qos=1)
        two.subscribe(FILTER, qos=1)
        publish(world.nodes[0].connect("writer"), [b"%d" % number for number in range(10)])
        assert (len(one.take_all(Publish)), len(two.take_all(Publish))) == (2, 3)


def test_sticky_members_get_everything_while_they_have_room() -> None:
    policy = Policy(sessions=Sessions(share_strategy="sticky"))
    with led_world(policy) as world:
        members = [kept(node, f"worker-{node.life.node}") for node in world.nodes]
        for member in members:
            member.subscribe(FILTER, qos=1)
        jobs = [b"%d" % number for number in range(6)]
        publish(world.nodes[0].connect("writer"), jobs)
        assert sorted(len(work(member)) for member in members) == [0, 0, 6]


def test_work_that_rests_goes_to_another_member() -> None:
    with led_world() as world:
        one, two = kept(world.nodes[1], "one"), kept(world.nodes[2], "two")
        lines = (Subscription(parse_filter(FILTER.encode()), 1),)
        properties = Properties(user_properties=(("share-steal-after", "3s"),))
        one.send(Subscribe(1, lines, properties))
        assert ("share-steal-after", "3") in one.take(Suback).properties.user_properties
        publish(world.nodes[0].connect("writer"), [b"job"])
        assert one.take(Publish).payload == b"job"
        two.subscribe(FILTER, qos=1)
        world.lead(2)
        assert two.inbox == []
        world.lead(3)
        assert work(two) == [b"job"]


def test_a_late_acknowledgement_of_stolen_work_is_accepted() -> None:
    with led_world() as world:
        one, two = kept(world.nodes[1], "one"), kept(world.nodes[2], "two")
        lines = (Subscription(parse_filter(FILTER.encode()), 1),)
        one.send(Subscribe(1, lines, Properties(user_properties=(("share-steal-after", "1s"),))))
        one.take(Suback)
        publish(world.nodes[0].connect("writer"), [b"job"])
        packet = one.take(Publish)
        two.subscribe(FILTER, qos=1)
        world.lead(3)
        one.send(Ack(PUBACK, packet.packet_id))
        assert work(two) == [b"job"]
        world.lead(5)
        assert work(one, two) == []


def test_a_group_of_a_cluster_cannot_begin_in_the_past() -> None:
    with led_world() as world:
        assert kept(world.nodes[1], "worker").subscribe("$share/workers/$replay/-5m/jobs/#", qos=1) == [0x9E]


def test_a_message_with_qos_2_for_a_member_with_qos_1_is_not_assigned() -> None:
    with led_world() as world:
        member = kept(world.nodes[1], "worker")
        member.subscribe(FILTER, qos=1)
        publish(world.nodes[0].connect("writer"), [b"job"], 2)
        assert assigned_rows(world) == []
        assert work(member) == [b"job"]


def test_a_member_with_qos_0_gets_what_is_published_with_qos_1() -> None:
    with led_world() as world:
        member = kept(world.nodes[1], "worker")
        member.subscribe(FILTER, qos=0)
        jobs = [b"%d" % number for number in range(5)]
        publish(world.nodes[0].connect("writer"), jobs)
        assert member.payloads() == jobs
        world.lead(2)
        assert member.inbox == []


def test_a_node_that_starts_again_with_its_tables_dispatches_what_it_leads() -> None:
    """The groups of a vnode are found in its tables, and what is below their progress is not given out again."""
    with led_world() as world:
        old = leader(world)
        others = [node for node in world.nodes if node is not old]
        member = kept(others[0], "worker")
        member.subscribe(FILTER, qos=1)
        writer = others[1].connect("writer")
        publish(writer, [b"1", b"2"])
        assert work(member) == [b"1", b"2"]
        world.lead(2)
        for node in others:
            for one in node.leaders:
                one.is_ready = False
        number = old.life.node
        old.kill()
        old.fence()
        world.start(number)
        world.lead(20)
        assert leader(world).life.node == number
        publish(writer, [b"3"])
        world.lead(2)
        assert work(member) == [b"3"]


# ---- QoS 2


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


def assigned_rows(world: ClusterWorld) -> list[object]:
    return [one for node in world.nodes for one in node.groups.standing.assigned_at]


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
