"""Rules 5 and 6: items of sessions count for whoever holds them, and claims decide who does."""

import pytest

from holdfast.durable.sessions.session_store import DropIncoming, DropSession, KeepIncoming, KeepSession
from holdfast.records.cluster.items import Claim, Closed, Item, ReadRegistration, Release
from holdfast.records.cluster.record import SessionEntry
from holdfast.records.session.session_record import SessionRecord
from tests.unit.durable.state_machine.vnode import S, T, Vnode, a_will, message, step, topics

pytestmark = pytest.mark.compiled

LATER = (T // 1000 + 9, 0, 0)


class TestItemsOfSessions:
    def test_a_record_of_the_old_owner_behind_the_claim_is_rejected(self) -> None:
        """Rule 5, A1: it is never acknowledged, and the client's repetition is stored once."""
        vnode = Vnode()
        old = vnode.open("c", 1)
        new = vnode.open("c", 2, expected=old, link=2)
        late = vnode.publish(1, "c", old, message(packet_id=7), message(b"u"))
        assert late.accepted == [False, False]
        assert late.fenced == [SessionEntry("c", old)]
        assert (topics(late), late.steps) == ([], [])
        again = vnode.publish(2, "c", new, message(packet_id=7))
        assert (again.accepted, again.published[0].serial) == ([True], 1)

    def test_a_session_is_fenced_from_the_first_rejected_item_on_and_others_are_not(self) -> None:
        vnode = Vnode()
        one, other = vnode.open("c", 1), vnode.open("d", 1)
        items: list[Item] = [
            message(b"1"),
            Claim("c", 2, LATER, one),
            message(b"2"),
            step(DropSession("c", SessionRecord(expiry_s=0, disconnected_us=0))),
            message(b"3", session=1),
        ]
        outcome = vnode.write(1, *items, sessions=[("c", one), ("d", other)])
        assert outcome.accepted == [True, True, False, False, True]
        assert topics(outcome) == [b"1", b"3"]
        assert outcome.fenced == [SessionEntry("c", one)]
        assert vnode.session("c") is not None

    def test_two_connections_of_one_client_in_one_record_are_told_apart(self) -> None:
        """A15: the client came back to the same node; what the old connection had on its way does not count."""
        vnode = Vnode()
        old = vnode.open("c", 1)
        new = vnode.open("c", 1, expected=old, link=2)
        sessions = [("c", old), ("c", new)]
        outcome = vnode.write(
            1, message(b"old", packet_id=7), message(b"new", packet_id=7, session=1), sessions=sessions
        )
        assert outcome.accepted == [False, True]
        assert topics(outcome) == [b"new"]
        assert outcome.fenced == [SessionEntry("c", old)]

    def test_a_session_that_is_claimed_within_a_record_is_fenced_behind_the_claim(self) -> None:
        """A1, A15: that it was held for the items before says nothing about those behind."""
        vnode = Vnode()
        old = vnode.open("c", 1)
        claim = Claim("c", 2, LATER, old)
        items = (message(b"1"), message(b"2"), claim, message(b"3"), step(KeepIncoming("c", 7)))
        outcome = vnode.write(1, *items, sessions=[("c", old)])
        assert outcome.accepted == [True, True, True, False, False]
        assert topics(outcome) == [b"1", b"2"]
        assert outcome.fenced == [SessionEntry("c", old)]

    def test_nothing_of_a_session_counts_behind_the_closing_of_its_own_writer(self) -> None:
        """Rule 4: within one record."""
        vnode = Vnode()
        held = vnode.open("c", 1)
        outcome = vnode.write(1, message(b"1"), Closed(1, 2), message(b"2"), sessions=[("c", held)])
        assert outcome.accepted == [True, True, False]
        assert topics(outcome) == [b"1"]

    @pytest.mark.parametrize("wrong", ["node", "epoch", "revision"])
    def test_node_epoch_and_revision_have_to_be_those_of_the_registration(self, wrong: str) -> None:
        vnode = Vnode()
        revision = vnode.claim("c", 1, epoch=5)
        node = 2 if wrong == "node" else 1
        epoch = 6 if wrong == "epoch" else 5
        outcome = vnode.publish(node, "c", revision + (wrong == "revision"), epoch=epoch)
        assert (outcome.accepted, topics(outcome)) == ([False], [])

    def test_a_client_that_moves_there_and_back_is_held_at_the_last_revision_alone(self) -> None:
        """A9: nothing that the first node remembers counts."""
        vnode = Vnode()
        first = vnode.open("c", 1)
        second = vnode.open("c", 2, expected=first, link=2)
        third = vnode.open("c", 1, expected=second, link=3)
        assert vnode.publish(1, "c", first).accepted == [False]
        assert vnode.publish(2, "c", second).accepted == [False]
        assert vnode.publish(1, "c", third).accepted == [True]

    def test_an_incoming_id_comes_with_its_message(self) -> None:
        """Rule 5, A16: both are one item."""
        vnode = Vnode()
        revision = vnode.open("c", 1)
        outcome = vnode.publish(1, "c", revision, message(packet_id=7, qos=2))
        assert (len(outcome.published), len(outcome.steps)) == (1, 1)
        stored = vnode.tables.sessions.load("c")
        assert stored is not None
        assert stored.incoming == {7}
        vnode.step(1, DropIncoming("c", 7), revision)
        stored = vnode.tables.sessions.load("c")
        assert stored is not None
        assert stored.incoming == set()

    def test_a_number_that_is_not_above_the_last_one_is_accepted_and_not_stored(self) -> None:
        """Rule 5, A9: what counts is the number in the table, whichever node took it."""
        vnode = Vnode()
        old = vnode.open("c", 1)
        assert len(vnode.publish(1, "c", old, message(number=5)).published) == 1
        new = vnode.open("c", 2, expected=old, link=2)
        outcome = vnode.publish(2, "c", new, message(number=5), message(number=4), message(number=6))
        assert outcome.accepted == [True, True, True]
        assert [published.index for published in outcome.published] == [2]

    def test_a_fenced_number_is_not_taken(self) -> None:
        """A15: the repetition is stored, never only acknowledged."""
        vnode = Vnode()
        old = vnode.open("c", 1)
        new = vnode.open("c", 1, expected=old, link=2)
        assert vnode.publish(1, "c", old, message(number=5)).accepted == [False]
        assert len(vnode.publish(1, "c", new, message(number=5)).published) == 1

    def test_a_step_of_a_session_that_is_not_stored_changes_nothing(self) -> None:
        vnode = Vnode()
        revision = vnode.claim("c", 1)
        outcome = vnode.step(1, KeepIncoming("c", 1), revision)
        assert (outcome.accepted, outcome.steps) == ([True], [])

    def test_the_record_that_a_step_replaces_is_the_one_in_the_table(self) -> None:
        vnode = Vnode()
        revision = vnode.open("c", 1, expiry_s=5)
        outcome = vnode.step(1, KeepSession("c", SessionRecord(expiry_s=9, disconnected_us=7), None), revision)
        (kept,) = outcome.steps
        assert isinstance(kept, KeepSession)
        assert kept.before == SessionRecord(expiry_s=5, disconnected_us=0)
        assert kept.record == SessionRecord(expiry_s=9, disconnected_us=0), "it has a connection"

    def test_nothing_of_a_session_counts_behind_a_message_without_a_valid_topic(self) -> None:
        vnode = Vnode()
        revision = vnode.open("c", 1)
        outcome = vnode.publish(1, "c", revision, message(b"1"), message(b"a\0b"), message(b"2"))
        assert (outcome.accepted, topics(outcome)) == ([True, False, False], [b"1"])


class TestClaims:
    def test_of_two_claims_at_one_revision_the_first_is_accepted(self) -> None:
        """Rule 6, R4."""
        vnode = Vnode()
        outcome = vnode.write(1, Claim("c", 1, (1, 1, 1), 0), Claim("c", 2, (2, 1, 2), 0))
        assert outcome.accepted == [True, False]
        refused = outcome.refused_claims[1]
        assert refused is not None
        assert (refused.revision, refused.connection_id) == (outcome.revisions[0], 1)

    @pytest.mark.parametrize("version", [(5, 1, 1), (5, 1, 0), (5, 0, 9), (4, 9, 9)])
    def test_a_version_that_is_not_above_the_registered_one_is_rejected(self, version: tuple[int, int, int]) -> None:
        """Rule 6, R2, R6."""
        vnode = Vnode()
        revision = vnode.write(1, Claim("c", 1, (5, 1, 1), 0)).revisions[0]
        assert vnode.write(2, Claim("c", 2, version, revision)).accepted == [False]
        assert vnode.write(2, Claim("c", 2, (5, 1, 2), revision)).accepted == [True]

    def test_a_claim_that_expects_a_registration_which_is_gone_is_rejected(self) -> None:
        vnode = Vnode()
        revision = vnode.claim("c", 1)
        vnode.write(1, Release("c", 1, goodbye=False))
        assert vnode.write(2, Claim("c", 2, LATER, revision)).accepted == [False]
        assert vnode.write(2, Claim("c", 2, LATER, 0)).accepted == [True]

    def test_a_released_version_is_compared_for_a_minute_more(self) -> None:
        """Rule 6, A25: a slow older connection does not discard what a newer one left."""
        vnode = Vnode()
        vnode.claim("c", 1, at_ms=500)
        vnode.write(1, Release("c", 1, goodbye=True))
        slow = Claim("c", 2, (400, 2, 1), 0)
        for _step in range(2):
            vnode.now_us += 30 * S - 1
            outcome = vnode.write(2, slow)
            assert outcome.accepted == [False]
            assert outcome.refused_claims[0] is not None
        vnode.now_us += 2
        assert vnode.write(2, slow).accepted == [True]

    def test_a_claim_names_whom_it_replaced(self) -> None:
        vnode = Vnode()
        revision = vnode.claim("c", 1, link=7)
        outcome = vnode.write(2, Claim("c", 8, LATER, revision))
        assert {client: row.connection_id for client, row in outcome.replaced.items()} == {"c": 7}

    def test_a_claim_without_conditions_is_accepted_in_the_order_of_the_log(self) -> None:
        """The registry mode `eventual`, R16: it gets the version "disconnected at", else the record's time."""
        vnode = Vnode()
        vnode.open("c", 1)
        vnode.write(1, Release("c", 1, goodbye=False))
        vnode.now_us += 5 * S
        outcome = vnode.write(2, Claim("c", 2, None, None), Claim("c", 3, None, None))
        assert outcome.accepted == [True, True]
        row = vnode.registration("c")
        assert row is not None
        assert (row.connection_id, row.version) == (3, ((T + 5 * S) // 1000, 2, outcome.revisions[1]))
        other = vnode.open("d", 1)
        vnode.write(1, Release("d", 1, goodbye=False))
        vnode.now_us += 5 * S
        vnode.write(2, Claim("d", 2, None, None))
        row = vnode.registration("d")
        assert row is not None
        assert row.version[0] == (T + 5 * S) // 1000
        assert row.revision > other

    def test_a_read_is_answered_where_it_stands(self) -> None:
        """Rule 7."""
        vnode = Vnode()
        read = ReadRegistration("c")
        items: list[Item] = [read, Claim("c", 1, (1, 1, 1), 0), read, Release("c", 1, goodbye=False), read]
        outcome = vnode.write(1, *items)
        found = outcome.reads[2]
        assert (outcome.reads[0], outcome.reads[4]) == (None, None)
        assert found is not None
        assert found.revision == outcome.revisions[1]

    def test_a_vnode_without_settings_takes_no_claim(self) -> None:
        vnode = Vnode(settings=None)
        assert vnode.write(1, Claim("c", 1, (1, 1, 1), 0)).accepted == [False]

    def test_a_registration_of_a_closed_epoch_is_none(self) -> None:
        """Rule 9, R10."""
        vnode = Vnode()
        revision = vnode.claim("c", 1, epoch=5)
        outcome = vnode.write(2, Closed(1, 6), ReadRegistration("c"), Claim("c", 2, LATER, revision))
        assert (outcome.reads[1], outcome.accepted) == (None, [True, True, False])
        assert vnode.write(2, Claim("c", 2, LATER, 0)).accepted == [True]

    def test_a_higher_epoch_of_a_node_closes_its_own_registrations(self) -> None:
        """Rule 2: a restart leaves no registration without a channel."""
        vnode = Vnode()
        revision = vnode.open("c", 1, epoch=5)
        kept = vnode.claim("d", 2)
        outcome = vnode.write(1, ReadRegistration("c"), ReadRegistration("d"), epoch=6)
        found = outcome.reads[1]
        assert outcome.reads[0] is None
        assert found is not None
        assert found.revision == kept
        assert vnode.publish(1, "c", revision, epoch=6).accepted == [False]

    def test_a_client_is_open_again_after_its_node_was_closed(self) -> None:
        vnode = Vnode()
        vnode.open("c", 1, epoch=5, will=a_will(0))
        vnode.write(2, Closed(1, 6))
        vnode.now_us += 10 * S
        new = vnode.open("c", 2, link=2)
        assert vnode.publish(2, "c", new).accepted == [True]
        assert vnode.session("c") == SessionRecord(expiry_s=100, disconnected_us=0)
