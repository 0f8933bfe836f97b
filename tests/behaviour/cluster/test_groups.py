"""Shared subscriptions of a cluster: one member gets each message, whichever node it is at and whichever node dies."""

from collections import Counter

import pytest

from holdfast.broker.policy import Policy, Sessions
from holdfast.cluster.registry.takeover_begin import BEGIN
from holdfast.model.message import Message
from holdfast.model.protocol import PUBACK, V5
from holdfast.records.session.groups import GroupRecord
from holdfast.topics.filters import parse_filter
from holdfast.wire.packets import Ack, Connack, Connect, Publish, Suback, Subscribe, Subscription, Unsuback, Unsubscribe
from holdfast.wire.properties import Properties
from tests.cluster_groups import FILTER, GROUP, KEPT, assigned_rows, kept, leader, led_world, publish, work


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


def test_a_refused_subscribe_does_not_end_the_subscription_that_was_confirmed_before() -> None:
    """A20, L15: many programs subscribe on every connection; what was published behind their first SUBACK is owed."""
    with led_world() as world:
        member = kept(world.nodes[1], "worker")
        assert member.subscribe(FILTER, qos=1) == [1]
        member = kept(world.nodes[2], "worker")
        world.hold_packets = True
        publish(world.nodes[0].connect("writer"), [b"owed"])
        member.send(Subscribe(2, (Subscription(parse_filter(FILTER.encode()), 1),)))
        world.advance(6)
        assert list(member.take(Suback).reasons) == [0x80]
        world.packets.clear()
        world.hold_packets = False
        world.lead(5)
        assert member.payloads() == [b"owed"]


def test_suback_waits_for_a_listing_behind_the_end_of_an_earlier_one() -> None:
    """A20: a member that is listed for a subscription that has ended is about to be dropped, and the group with it."""
    with led_world() as world:
        node = next(node for node in world.nodes if node is not leader(world))
        member = kept(node, "press")  # of another vnode than the group
        world.hold_packets = True
        member.send(Subscribe(1, (Subscription(parse_filter(FILTER.encode()), 1),)))
        world.do(world.carry_packet)  # the report; what the leader answers is lost
        world.packets.clear()
        world.advance(6)
        assert list(member.take(Suback).reasons) == [0x80]
        log = world.log_of(GROUP)
        log.hold_appends = True
        while world.packets:
            world.do(world.carry_packet)  # a report without the member: the leader drops it, and is not heard yet
        assert node.groups.standing.listed(GROUP), "by what is applied it is listed still"
        member.send(Subscribe(2, (Subscription(parse_filter(FILTER.encode()), 1),)))
        world.hold_packets = False
        while world.packets:
            world.do(world.carry_packet)
        assert member.inbox == []
        log.hold_appends = False
        world.let_appends_through()
        world.lead(2)
        assert list(member.take(Suback).reasons) == [1]
        publish(world.nodes[2].connect("writer"), [b"owed"])
        world.lead(2)
        assert member.payloads() == [b"owed"]


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


def test_the_work_of_a_killed_node_is_given_out_once() -> None:
    """A20: its group gives it out again, so the session of the member, elsewhere by now, does not send it as well."""
    with led_world() as world:
        member = kept(world.nodes[1], "member")
        member.subscribe(FILTER, qos=1)
        jobs = [b"%d" % number for number in range(4)]
        publish(world.nodes[0].connect("writer"), jobs)
        # Its progress is stored, with the others as in flight.
        done = member.take(Publish)
        member.send(Ack(PUBACK, done.packet_id))
        world.lead(3)
        world.nodes[1].kill()
        world.nodes[1].fence()
        world.lead(20)
        again = kept(world.nodes[2], "member")
        world.lead(3)
        assert sorted([done.payload, *work(again)]) == jobs


@pytest.mark.parametrize("stored", [True, False])
def test_work_that_a_member_keeps_when_it_unsubscribes_survives_its_node(*, stored: bool) -> None:
    """A20, L15: until it is stored with the session of the member it is the group's, which gives it out again."""
    with led_world() as world:
        name = next(name for name in "abcdefgh" if world.log_of(name) is not world.log_of(GROUP))
        member, other = kept(world.nodes[1], name), kept(world.nodes[2], "other")
        member.subscribe(FILTER, qos=1)
        publish(world.nodes[0].connect("writer"), [b"job"])
        assert member.take(Publish).payload == b"job"
        other.subscribe(FILTER, qos=1)
        world.log_of(name).hold_appends = not stored
        member.send(Unsubscribe(7, (parse_filter(FILTER.encode()),)))
        world.lead(1)
        world.nodes[1].kill()
        world.log_of(name).held.clear()
        world.log_of(name).hold_appends = False
        world.nodes[1].fence()
        world.lead(20)
        again = kept(world.nodes[2], name)
        world.lead(3)
        assert b"job" in work(again, other)


def test_work_that_a_member_keeps_when_it_unsubscribes_is_not_done_if_that_does_not_count() -> None:
    """A1, A20: its client has moved meanwhile. The new owner neither has the message in flight, nor has it left."""
    with led_world() as world:
        world.network.unanswered.add(BEGIN)
        name = next(name for name in "abcdefgh" if world.log_of(name) is not world.log_of(GROUP))
        member = kept(world.nodes[1], name)
        member.subscribe(FILTER, qos=1)
        publish(world.nodes[0].connect("writer"), [b"job"])
        assert member.take(Publish).payload == b"job"
        log = world.log_of(name)
        log.hold_appends = True
        member.send(Unsubscribe(9, (parse_filter(FILTER.encode()),)))
        moved = world.nodes[2].peer()
        moved.send(Connect(V5, name, clean_start=False, properties=KEPT))
        claim = len(log.held) - 1
        assert claim > 0, "behind what the member has written"
        world.do(lambda: log.arrive(claim))
        world.let_appends_through()
        assert moved.take(Connack).session_present
        world.lead(3)
        assert work(moved) == [b"job"]


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


@pytest.mark.parametrize("qos", [1, 2])
def test_members_at_several_nodes_split_a_replay_and_the_first_sets_its_start(qos: int) -> None:
    """L15: history first, then live, each message to one member; a later start is ignored."""
    with led_world() as world:
        writer = world.nodes[0].connect("writer")
        past = [b"%d" % number for number in range(20)]
        publish(writer, past, 2)
        world.lead(2)
        members = [kept(node, f"worker-{node.life.node}", receive_maximum=4) for node in world.nodes]
        for member, start in zip(members, ("earliest", "latest", "latest"), strict=True):
            assert member.subscribe(f"$share/workers/$replay/{start}/jobs/#", qos=qos) == [qos]
        got = [work(member) for member in members]
        done = [payload for one in got for payload in one] + work(*members)
        world.lead(1)
        done += work(*members)
        assert Counter(done) == Counter(past)
        publish(world.nodes[1].connect("writer-2"), [b"live"], 2)
        assert work(*members) == [b"live"]
        world.lead(2)
        assert world.nodes[2].groups.standing.record(GROUP) == GroupRecord(1, replaying=False, steal_after_us=0)


def test_history_of_a_group_is_told_with_its_place_and_goes_on_with_another_leader() -> None:
    """L15, A20."""
    with led_world() as world:
        old = leader(world)
        others = [node for node in world.nodes if node is not old]
        writer = others[1].connect("writer")
        past = [b"%d" % number for number in range(6)]
        publish(writer, past)
        member = kept(others[0], "worker", receive_maximum=2)
        assert member.subscribe("$share/workers/$replay/earliest/jobs/#", qos=1) == [1]
        first = member.take(Publish)
        assert first.payload == b"0"
        assert [name for name, _value in first.properties.user_properties] == ["ts", "offset"]
        member.send(Ack(PUBACK, first.packet_id))
        world.lead(2)
        old.kill()
        old.fence()
        done = work(member)
        world.lead(20)
        done += work(member)
        assert [b"0", *past[1:]] == list(dict.fromkeys([b"0", *done]))
        assert set(past[1:]) <= set(done)


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
