"""Rules 11 and 12: places of messages and generations of shards; versions of retained messages."""

import pytest

from holdfast.durable.state_machine.outcome import Outcome
from holdfast.durable.state_machine.tables import META
from holdfast.records.cluster.items import Border, ChangeSettings, DropGeneration, Horizon, Lead
from holdfast.records.cluster.settings import VnodeSettings, VnodeZone
from holdfast.records.generations import Generation, decode_generation
from holdfast.records.meta_keys import generation_key, head_key
from holdfast.records.positions import decode_head
from holdfast.records.retained import expiry_key
from tests.unit.durable.state_machine.vnode import DEFAULT, S, T, Vnode, message

pytestmark = pytest.mark.compiled

PLANT = VnodeZone("plant", 4, "paged", {"n": 1}, (b"p/#",), store_qos0=True)


def places(outcome: Outcome) -> list[tuple[int, int, int]]:
    return [(found.message.shard, found.message.position_us - T, found.serial) for found in outcome.published]


def generation(vnode: Vnode, number: int, zone: str = "default") -> Generation | None:
    key = generation_key(zone, number)
    value = vnode.tables.get(META, key)
    return None if value is None else decode_generation(key, value)


class TestPlaces:
    def test_positions_follow_record_time_and_increase_and_serials_are_dense(self) -> None:
        """Rule 12."""
        vnode = Vnode()
        revision = vnode.open("c", 1)
        assert places(vnode.publish(1, "c", revision, message(), message())) == [(0, 0, 1), (0, 1, 2)]
        assert places(vnode.publish(1, "c", revision)) == [(0, 2, 3)]
        vnode.now_us += S
        assert places(vnode.publish(1, "c", revision)) == [(0, S, 4)]
        vnode.now_us -= 500 * S
        assert places(vnode.publish(1, "c", revision)) == [(0, S + 1, 5)]
        value = vnode.tables.get(META, head_key(0))
        assert value is not None
        head = decode_head(value)
        assert (head.position_us, head.serial, head.commits) == (T + S + 1, 5, 4)

    def test_a_topic_goes_into_the_shard_of_its_zone(self) -> None:
        """Rule 12: by the last settings of this vnode."""
        vnode = Vnode()
        revision = vnode.open("c", 1)
        assert places(vnode.publish(1, "c", revision, message(b"p/1"))) == [(0, 0, 1)]
        vnode.write(2, ChangeSettings(2, VnodeSettings((DEFAULT, PLANT))))
        outcome = vnode.publish(1, "c", revision, message(b"p/1"), message(b"q"))
        assert places(outcome) == [(4, 0, 1), (0, 1, 2)]

    def test_settings_take_effect_between_two_items(self) -> None:
        vnode = Vnode()
        revision = vnode.open("c", 1)
        change = ChangeSettings(2, VnodeSettings((DEFAULT, PLANT)))
        outcome = vnode.publish(1, "c", revision, message(b"p/1"), change, message(b"p/1"), message(b"q"))
        assert places(outcome) == [(0, 0, 1), (4, 0, 1), (0, 1, 2)]

    def test_qos_0_is_stored_by_zones_that_say_so(self) -> None:
        vnode = Vnode(settings=VnodeSettings((DEFAULT, PLANT)))
        revision = vnode.open("c", 1)
        outcome = vnode.publish(1, "c", revision, message(qos=0), message(b"p/1", qos=0))
        assert outcome.accepted == [True, True]
        assert places(outcome) == [(0, -T, 0), (4, 0, 1)]

    def test_sys_topics_are_stored_nowhere(self) -> None:
        vnode = Vnode()
        revision = vnode.open("c", 1)
        outcome = vnode.publish(1, "c", revision, message(b"$SYS/x", retain=True))
        assert (outcome.accepted, places(outcome), outcome.published[0].version) == ([True], [(0, -T, 0)], 0)

    def test_messages_arrive_and_age_at_record_time(self) -> None:
        """Rule 4, A12: whatever the clock of their node says."""
        vnode = Vnode()
        revision = vnode.open("c", 1)
        vnode.now_us += 20 * S
        (published,) = vnode.publish(1, "c", revision, message(expires_us=T + 7 * S)).published
        assert (published.message.received_us, published.message.expires_us) == (T + 20 * S, T + 27 * S)


class TestGenerations:
    def test_a_shard_begins_with_its_first_settings(self) -> None:
        vnode = Vnode(settings=VnodeSettings((DEFAULT, PLANT)))
        found = generation(vnode, 1, "plant")
        assert found is not None
        assert (found.layout, found.parameters, found.start_us, found.shards) == ("paged", {"n": 1}, 0, (4,))

    def test_a_border_begins_where_the_next_message_would_be(self) -> None:
        """Rule 11."""
        vnode = Vnode()
        revision = vnode.open("c", 1)
        vnode.write(1, Lead())
        vnode.publish(1, "c", revision, message(), message())
        vnode.now_us -= 5 * S
        outcome = vnode.publish(1, "c", revision, Border("default", 2, "paged", {"n": 3}), message())
        assert outcome.accepted == [True, True]
        assert places(outcome) == [(0, 2, 3)]
        first, second = generation(vnode, 1), generation(vnode, 2)
        assert first is not None
        assert second is not None
        assert (first.end_us, first.last_serials) == (T + 2, (2,))
        assert (second.start_us, second.layout, second.parameters, second.inherits) == (T + 2, "paged", {"n": 3}, 1)
        assert [found.number for found in outcome.begun] == [2]

    def test_a_border_comes_once(self) -> None:
        """A7."""
        vnode = Vnode()
        border = Border("default", 2, "learned", {})
        outcome = vnode.write(1, Lead(), border, border, Border("default", 4, "learned", {}))
        assert outcome.accepted == [True, True, False, False]

    def test_a_border_of_an_unknown_zone_is_rejected(self) -> None:
        vnode = Vnode()
        items = [Border(name, 1, "learned", {}) for name in ("other", "", "a\0b")]
        assert vnode.write(1, Lead(), *items).accepted == [True, False, False, False]

    def test_no_position_is_below_a_start_that_a_border_asks_for(self) -> None:
        """After a log was lost: a position must not be given out twice."""
        vnode = Vnode()
        revision = vnode.open("c", 1)
        border = Border("default", 2, "learned", {}, not_before_us=T + 900 * S)
        outcome = vnode.publish(1, "c", revision, message(), Lead(), border, message(), message())
        assert places(outcome) == [(0, 0, 1), (0, 900 * S, 2), (0, 900 * S + 1, 3)]

    def test_only_a_sealed_generation_is_dropped_and_once(self) -> None:
        """Rule 11, A7."""
        vnode = Vnode()
        drop = DropGeneration("default", 1)
        outcome = vnode.write(1, Lead(), drop, Border("default", 2, "learned", {}), drop, drop)
        assert outcome.accepted == [True, False, True, True, False]
        assert [found.number for found in outcome.dropped] == [1]
        assert generation(vnode, 1) is None

    def test_serials_and_positions_go_on_when_every_message_was_dropped(self) -> None:
        vnode = Vnode()
        revision = vnode.open("c", 1)
        vnode.publish(1, "c", revision)
        vnode.write(1, Lead(), Border("default", 2, "learned", {}), DropGeneration("default", 1))
        assert places(vnode.publish(1, "c", revision)) == [(0, 1, 2)]

    def test_a_zone_that_is_gone_can_be_sealed_and_dropped(self) -> None:
        vnode = Vnode(settings=VnodeSettings((DEFAULT, PLANT)))
        vnode.write(2, ChangeSettings(2, VnodeSettings((DEFAULT,))))
        outcome = vnode.write(1, Lead(), Border("plant", 2, "paged", {}), DropGeneration("plant", 1))
        assert outcome.accepted == [True, True, True]


class TestRetained:
    def test_an_answer_wins_over_the_retained_message_that_it_answers(self) -> None:
        """A18: though this vnode's time is ten minutes behind that of the other one."""
        vnode = Vnode()
        revision = vnode.open("c", 1)
        seen = T + 600 * S
        outcome = vnode.write(1, message(retain=True), sessions=[("c", revision)], seen=seen)
        assert outcome.published[0].version == seen + 1
        later = vnode.publish(1, "c", revision, message(retain=True))
        assert later.published[0].version == seen + 2, "versions of a vnode never go back"

    def test_versions_are_positions_where_nothing_newer_was_seen(self) -> None:
        vnode = Vnode()
        revision = vnode.open("c", 1)
        outcome = vnode.publish(1, "c", revision, message(), message(retain=True), message(b"u", qos=0, retain=True))
        assert [found.version for found in outcome.published] == [0, T + 1, T + 2]
        kept = vnode.retained(b"u")
        assert kept is not None
        assert (kept.stored.position_us, kept.stored.serial, kept.stored_us) == (0, 0, T + 2)

    def test_a_removal_leaves_a_tombstone_until_its_horizon(self) -> None:
        """A18: a deleted retained message never returns."""
        vnode = Vnode()
        revision = vnode.open("c", 1)
        vnode.publish(1, "c", revision, message(retain=True))
        removal = vnode.publish(1, "c", revision, message(payload=b"", retain=True)).published[0].version
        kept = vnode.retained(b"t")
        assert kept is not None
        assert (kept.removed(), kept.stored_us) == (True, removal)
        horizons = [Horizon(b"t", removal - 1), Horizon(b"t", removal), Horizon(b"t", removal), Horizon(b"", 1)]
        assert vnode.write(1, Lead(), *horizons).accepted == [True, False, True, False, False]
        assert vnode.retained(b"t") is None

    def test_a_horizon_does_not_take_a_newer_message(self) -> None:
        vnode = Vnode()
        revision = vnode.open("c", 1)
        old = vnode.publish(1, "c", revision, message(payload=b"", retain=True)).published[0].version
        vnode.publish(1, "c", revision, message(payload=b"new", retain=True))
        assert vnode.write(1, Lead(), Horizon(b"t", old)).accepted == [True, False]
        assert vnode.retained(b"t") is not None

    def test_the_list_of_what_expires_follows_the_messages(self) -> None:
        vnode = Vnode()
        revision = vnode.open("c", 1)

        def listed() -> list[bytes]:
            return [key for family, key in vnode.tables.rows() if family == "retained" and key[0] == 2]

        vnode.publish(1, "c", revision, message(retain=True, expires_us=T + 5 * S))
        assert listed() == [expiry_key(T + 5 * S, b"t")]
        vnode.publish(1, "c", revision, message(retain=True, expires_us=T + 9 * S))
        assert listed() == [expiry_key(T + 9 * S, b"t")]
        kept = vnode.retained(b"t")
        assert kept is not None
        vnode.write(1, Lead(), Horizon(b"t", kept.stored_us))
        assert listed() == []
