"""Rules 6 to 9: wills come once and in time, sessions end when they do, no registration stays without a channel."""

import pytest

from holdfast.durable.sessions.session_store import DropSession, KeepSession
from holdfast.durable.state_machine.closing import close_slice
from holdfast.durable.state_machine.outcome import Outcome
from holdfast.records.cluster.items import Claim, Closed, Expire, Item, Release, WillDue
from holdfast.records.session.session_record import SessionRecord
from tests.unit.durable.state_machine.vnode import S, T, Vnode, a_will, step, topics

pytestmark = pytest.mark.compiled

LATER = (T // 1000 + 9, 0, 0)
NEVER = 0xFFFFFFFF
EMPTY = SessionRecord(expiry_s=0, disconnected_us=0)


def release(vnode: Vnode, client: str = "c", *, node: int = 1, link: int = 1, goodbye: bool = False) -> Outcome:
    return vnode.write(node, Release(client, link, goodbye=goodbye))


class TestReleases:
    def test_a_release_of_another_channel_changes_nothing(self) -> None:
        """Rule 7, R9: a deregistration never removes a newer registration."""
        vnode = Vnode()
        vnode.claim("c", 1, link=2)
        assert release(vnode, link=1).accepted == [False]
        assert release(vnode, node=2, link=2).accepted == [False]
        assert vnode.write(1, Release("c", 2, goodbye=False), epoch=2).accepted == [False]

    def test_a_release_behind_a_claim_without_an_outcome_takes_it_out(self) -> None:
        """Rule 7, A5, A17: the revision is not compared, and a rejected claim is not touched."""
        vnode = Vnode()
        outcome = vnode.write(1, Claim("c", 1, (1, 1, 1), 0), Release("c", 1, goodbye=False))
        assert outcome.accepted == [True, True]
        kept = vnode.claim("d", 2)
        outcome = vnode.write(1, Claim("d", 1, LATER, 0), Release("d", 1, goodbye=False))
        assert outcome.accepted == [False, False]
        row = vnode.registration("d")
        assert row is not None
        assert (row.revision, row.released_us) == (kept, 0)

    def test_a_release_counts_though_its_session_is_fenced(self) -> None:
        """Rule 5: it is judged by rule 7 alone."""
        vnode = Vnode()
        revision = vnode.open("c", 1)
        fenced = step(DropSession("c", EMPTY))
        outcome = vnode.write(1, fenced, Release("c", 1, goodbye=False), sessions=[("c", revision - 1)])
        assert outcome.accepted == [False, True]

    def test_a_session_is_offline_since_the_time_of_the_release(self) -> None:
        vnode = Vnode()
        vnode.open("c", 1)
        vnode.now_us += 7 * S
        release(vnode)
        assert vnode.session("c") == SessionRecord(expiry_s=100, disconnected_us=T + 7 * S)

    def test_a_session_with_expiry_0_ends_with_its_connection(self) -> None:
        vnode = Vnode()
        vnode.open("c", 1, expiry_s=0)
        assert release(vnode).ended == ["c"]
        assert vnode.session("c") is None

    @pytest.mark.parametrize(
        ("delay_s", "expiry_s", "comes"), [(0, 100, True), (10, 100, False), (10, 0, True), (0, 0, True)]
    )
    def test_without_a_goodbye_the_will_comes_now_or_waits(self, delay_s: int, expiry_s: int, comes: bool) -> None:
        """A will comes with the end of the session at the latest [MQTT-3.1.3-9]."""
        vnode = Vnode()
        vnode.open("c", 1, expiry_s=expiry_s, will=a_will(delay_s))
        outcome = release(vnode)
        assert topics(outcome) == [b"w"] * comes
        assert [published.is_will for published in outcome.published] == [True] * comes

    @pytest.mark.parametrize("expiry_s", [0, 100])
    def test_with_a_goodbye_no_will_comes(self, expiry_s: int) -> None:
        vnode = Vnode()
        revision = vnode.open("c", 1, expiry_s=expiry_s, will=a_will(0))
        assert topics(release(vnode, goodbye=True)) == []
        vnode.now_us += 30 * S
        assert vnode.write(2, WillDue("c", revision)).accepted == [False]


class TestClaimedSessions:
    def test_the_will_of_a_replaced_connection_comes_at_once_without_a_delay(self) -> None:
        """Rule 6."""
        vnode = Vnode()
        revision = vnode.open("c", 1, will=a_will(0))
        assert topics(vnode.write(2, Claim("c", 2, LATER, revision))) == [b"w"]
        assert vnode.session("c") == SessionRecord(expiry_s=100, disconnected_us=0)

    def test_the_will_of_a_replaced_connection_waits_until_the_open_stores_its_successor(self) -> None:
        """Rule 6 [MQTT-3.1.3-9]."""
        vnode = Vnode()
        revision = vnode.open("c", 1, will=a_will(10))
        claim = vnode.write(2, Claim("c", 2, LATER, revision))
        assert topics(claim) == []
        vnode.now_us += 20 * S
        assert vnode.write(3, WillDue("c", claim.revisions[0])).accepted == [False], "the session is connected"
        kept = vnode.step(2, KeepSession("c", SessionRecord(expiry_s=5, disconnected_us=0), None), claim.revisions[0])
        assert (kept.accepted, topics(kept)) == ([True], [])
        vnode.write(2, Release("c", 2, goodbye=False))
        vnode.now_us += 4 * S
        assert vnode.write(3, WillDue("c", claim.revisions[0])).accepted == [False]

    def test_a_clean_start_ends_the_session_and_brings_its_will(self) -> None:
        """Rule 8: a session that ends, however it does, publishes the will that still waits."""
        vnode = Vnode()
        revision = vnode.open("c", 1, will=a_will(10))
        claim = vnode.write(2, Claim("c", 2, LATER, revision)).revisions[0]
        items = [
            step(DropSession("c", EMPTY)),
            step(KeepSession("c", SessionRecord(expiry_s=7, disconnected_us=0), None)),
        ]
        outcome = vnode.write(2, *items, sessions=[("c", claim)])
        assert (outcome.accepted, topics(outcome), outcome.ended) == ([True, True], [b"w"], ["c"])
        assert vnode.session("c") == SessionRecord(expiry_s=7, disconnected_us=0)

    def test_a_session_with_expiry_0_ends_when_its_connection_is_replaced(self) -> None:
        vnode = Vnode()
        revision = vnode.open("c", 1, expiry_s=0, will=a_will(10))
        outcome = vnode.write(2, Claim("c", 2, LATER, revision))
        assert (topics(outcome), outcome.ended) == ([b"w"], ["c"])

    def test_a_session_whose_end_has_come_is_not_present_at_the_claim(self) -> None:
        """A17: though no leader has proposed its end."""
        vnode = Vnode()
        vnode.open("c", 1, expiry_s=10, will=a_will(5))
        release(vnode)
        vnode.now_us += 10 * S
        outcome = vnode.write(2, Claim("c", 2, LATER, 0))
        assert (topics(outcome), outcome.ended) == ([b"w"], ["c"])

    def test_a_will_whose_time_has_come_is_published_at_the_claim(self) -> None:
        """A17: though no leader has proposed it; the session stays."""
        vnode = Vnode()
        vnode.open("c", 1, expiry_s=100, will=a_will(5))
        release(vnode)
        vnode.now_us += 5 * S
        outcome = vnode.write(2, Claim("c", 2, LATER, 0))
        assert (topics(outcome), outcome.ended) == ([b"w"], [])
        assert vnode.session("c") == SessionRecord(expiry_s=100, disconnected_us=0)

    def test_a_claimer_that_dies_before_its_open_leaves_session_and_will(self) -> None:
        """A17: the will comes once, not too early, and not not at all."""
        vnode = Vnode()
        vnode.open("c", 1, expiry_s=100, will=a_will(5))
        release(vnode)
        vnode.now_us += 3 * S
        claim = vnode.claim("c", 2, epoch=4, link=2)
        vnode.now_us += 20 * S
        assert vnode.write(3, WillDue("c", claim)).accepted == [False]
        vnode.write(3, Closed(2, 5))
        closed_us = vnode.now_us
        for seconds, due in ((29, False), (1, True), (0, False)):
            vnode.now_us += seconds * S
            outcome = vnode.write(3, WillDue("c", claim))
            assert (outcome.accepted, topics(outcome)) == ([due], [b"w"] * due)
        left = vnode.session("c")
        assert left is not None
        assert (left.disconnected_us, left.will) == (closed_us, None)


class TestWhatTimeBringsAbout:
    def test_a_will_comes_once_when_its_time_has_come(self) -> None:
        """Rule 8, A7: a leader that wakes with it in its hands, and the one that replaced it, both propose it."""
        vnode = Vnode()
        revision = vnode.open("c", 1, will=a_will(5))
        release(vnode)
        due = WillDue("c", revision)
        vnode.now_us += 5 * S - 1
        assert vnode.write(2, due).accepted == [False]
        vnode.now_us += 1
        outcome = vnode.write(2, due)
        assert (outcome.accepted, topics(outcome)) == ([True], [b"w"])
        assert vnode.write(3, due).accepted == [False]

    def test_a_will_that_was_left_at_another_revision_does_not_come(self) -> None:
        vnode = Vnode()
        old = vnode.open("c", 1, will=a_will(5))
        new = vnode.open("c", 1, expected=old, will=a_will(5), link=2)
        release(vnode, link=2)
        vnode.now_us += 5 * S
        assert vnode.write(2, WillDue("c", old), WillDue("c", new)).accepted == [False, True]

    def test_a_session_ends_once_and_at_its_time(self) -> None:
        """Rule 8, A7."""
        vnode = Vnode()
        vnode.open("c", 1, expiry_s=10, will=a_will(NEVER))
        release(vnode)
        expire = Expire("c", T + 10 * S)
        vnode.now_us += 10 * S - 1
        assert vnode.write(2, expire).accepted == [False]
        vnode.now_us += 1
        assert vnode.write(2, Expire("c", T + 9 * S)).accepted == [False]
        outcome = vnode.write(2, expire)
        assert (outcome.accepted, outcome.ended, topics(outcome)) == ([True], ["c"], [b"w"])
        assert vnode.write(3, expire).accepted == [False]

    def test_what_was_left_while_the_time_was_in_doubt_waits_from_the_leap_behind_it(self) -> None:
        """A12, rule 8: a log that was silent is behind, and what is left then would end too early."""
        vnode = Vnode()
        revision = vnode.open("c", 1, expiry_s=100, will=a_will(40))
        vnode.now_us += 300 * S
        # The first to write is not believed; the second one agrees, and time leaps.
        release(vnode)
        due, expire = WillDue("c", revision), Expire("c", T + 130 * S)
        assert vnode.write(2, due, expire).accepted == [False, False]
        leapt_us = vnode.now_us
        for end_us, item in ((leapt_us + 40 * S, due), (leapt_us + 100 * S, expire)):
            while vnode.now_us < end_us - 1:
                vnode.now_us = min(vnode.now_us + 25 * S, end_us - 1)
                assert vnode.write(2, item).accepted == [False]
            vnode.now_us += 1
            assert vnode.write(2, item).accepted == [True]

    @pytest.mark.parametrize("in_doubt", [True, False])
    def test_a_session_is_over_behind_a_leap_if_it_was_left_before_the_doubt(self, *, in_doubt: bool) -> None:
        """A12, rule 6: a cluster that did not run has kept nobody waiting."""
        vnode = Vnode()
        vnode.open("c", 1, expiry_s=100)
        if not in_doubt:
            release(vnode)
        vnode.now_us += 300 * S
        if in_doubt:
            release(vnode)
        vnode.write(2)
        vnode.write(3)
        ended = vnode.write(2, Claim("c", 7, (vnode.now_us, 2, 7), 0)).ended
        assert ended == ([] if in_doubt else ["c"])

    def test_a_session_with_a_connection_does_not_end(self) -> None:
        vnode = Vnode()
        vnode.open("c", 1, expiry_s=10)
        release(vnode)
        vnode.claim("c", 2, link=2)
        vnode.now_us += 20 * S
        assert vnode.write(2, Expire("c", T + 10 * S)).accepted == [False]

    def test_a_will_is_published_as_it_was_stored_at_record_time(self) -> None:
        vnode = Vnode()
        vnode.open("c", 1, will=a_will(0))
        vnode.now_us += 2 * S
        (published,) = release(vnode).published
        message = published.message
        assert (message.payload, message.qos, message.publisher) == (b"gone", 1, "c")
        assert (message.received_us, message.position_us, published.serial) == (T + 2 * S, T + 2 * S, 1)


class TestClosedEpochs:
    def test_sessions_of_a_closed_epoch_are_offline_since_the_closing(self) -> None:
        """Rule 9."""
        vnode = Vnode()
        vnode.open("c", 1, epoch=5, expiry_s=20)
        vnode.now_us += 3 * S
        vnode.write(2, Closed(1, 6))
        vnode.now_us += 20 * S - 1
        assert vnode.write(2, Expire("c", T + 23 * S)).accepted == [False]
        vnode.now_us += 1
        assert vnode.write(2, Expire("c", T + 23 * S)).ended == ["c"]

    @pytest.mark.parametrize(("delay_s", "waits_s"), [(0, 30), (29, 30), (45, 45), (1000, 100)])
    def test_their_wills_wait_for_at_least_30_s(self, delay_s: int, waits_s: int) -> None:
        vnode = Vnode()
        revision = vnode.open("c", 1, epoch=5, expiry_s=100, will=a_will(delay_s))
        vnode.write(2, Closed(1, 6))
        closed_us = vnode.now_us
        while vnode.now_us < closed_us + waits_s * S - 1:
            vnode.now_us = min(vnode.now_us + 25 * S, closed_us + waits_s * S - 1)
            assert vnode.write(2, WillDue("c", revision)).accepted == [False]
        vnode.now_us += 1
        assert topics(vnode.write(2, WillDue("c", revision))) == [b"w"]

    def test_they_do_not_end_before_their_wills_time(self) -> None:
        vnode = Vnode()
        vnode.open("c", 1, epoch=5, expiry_s=0, will=a_will(0))
        vnode.open("d", 1, epoch=5, expiry_s=0)
        vnode.write(2, Closed(1, 6))
        outcome = vnode.write(2, Expire("c", T), Expire("d", T))
        assert outcome.accepted == [False, True]
        vnode.now_us += 30 * S
        outcome = vnode.write(2, Expire("c", T + 30 * S))
        assert (outcome.ended, topics(outcome)) == (["c"], [b"w"])

    def test_a_later_closing_does_not_move_the_time_of_an_earlier_one(self) -> None:
        vnode = Vnode()
        vnode.open("c", 1, epoch=5, expiry_s=20)
        vnode.write(2, Closed(1, 6))
        vnode.now_us += 15 * S
        vnode.write(2, Closed(1, 9))
        vnode.now_us += 5 * S
        assert vnode.write(2, Expire("c", T + 20 * S)).ended == ["c"]

    def test_slices_change_nothing_that_is_read_and_nothing_in_the_digest(self) -> None:
        """A13: nodes that have come to different slices, or none, stay equal."""
        plain, sliced = Vnode(), Vnode()
        for vnode in (plain, sliced):
            for client in ("a", "b", "c", "d"):
                vnode.open(client, 1 if client != "b" else 2, epoch=5, will=a_will(3))
            vnode.write(2, Closed(1, 6), epoch=5)
        after, rounds = "", 0
        while after or not rounds:
            changes, after = close_slice(sliced.tables, after, 2)
            sliced.tables.write(changes.changes, changes.steps)
            rounds += 1
        assert rounds == 3
        assert sliced.session("a") != plain.session("a")
        assert sliced.session("b") == plain.session("b")
        items: list[Item] = [Claim("a", 3, LATER, 0), Release("a", 3, goodbye=False), Claim("c", 3, LATER, 0)]
        for vnode in (plain, sliced):
            vnode.now_us += 20 * S
            outcome = vnode.write(2, *items, epoch=5)
            assert outcome.accepted == [True, True, True]
        assert (plain.session("a"), plain.session("c")) == (sliced.session("a"), sliced.session("c"))
        last = [vnode.write(2, WillDue("d", 0), epoch=5).digest for vnode in (plain, sliced)]
        assert last[0] == last[1]
