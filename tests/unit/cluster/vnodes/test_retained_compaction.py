"""Which retained messages of a vnode a leader has taken out: what is covered, and removals that hide nothing (A18)."""

from collections.abc import Mapping

from holdfast.cluster.vnodes.retained_compaction import ROWS, RetainedCompaction
from holdfast.durable.erasures import Erasure, Erasures, no_erasures
from holdfast.durable.state_machine.machine import applied_row
from holdfast.durable.state_machine.tables import RETAINED
from holdfast.records.cluster.items import Horizon, Lead, Tick
from holdfast.records.cluster.settings import VnodeSettings, VnodeZone
from holdfast.records.retained import retained_key
from tests.unit.durable.state_machine.vnode import S, Vnode, message

TEN_MINUTES = 600 * S


class Pair:
    """Two vnodes, a publisher in each, and what the leader of the first one proposes."""

    def __init__(self) -> None:
        self.vnodes = [Vnode(settings=VnodeSettings((VnodeZone("default", shard, "paged", {}),))) for shard in (0, 1)]
        self.revisions = [vnode.open("c", 1) for vnode in self.vnodes]
        for vnode in self.vnodes:
            vnode.write(1, Lead())
        #: What the members have applied, by their beats; None if that is everything.
        self.passed: Mapping[int, int] | None = None
        tables = [vnode.tables for vnode in self.vnodes]
        self.erasures = no_erasures()
        self.compactions = [
            RetainedCompaction(number, tables, self._have_passed, lambda: self.erasures) for number in (0, 1)
        ]

    def _have_passed(self, places: Mapping[int, int]) -> bool:
        return self.passed is None or all(self.passed[vnode] >= place for vnode, place in places.items())

    def publish(self, vnode: int, payload: bytes, topic: bytes = b"t", *, seen: int = 0, expires_us: int = 0) -> int:
        """Retain a message; its version."""
        published = message(topic, payload, retain=True, expires_us=expires_us)
        at = self.vnodes[vnode]
        outcome = at.write(1, published, sessions=[("c", self.revisions[vnode])], seen=seen)
        return outcome.published[0].version

    def pass_time(self, vnode: int, us: int) -> None:
        """The time of one vnode goes on. More than 30 s are followed if two nodes say so."""
        at = self.vnodes[vnode]
        at.now_us += us
        for node in (1, 2, 1):
            at.write(node, Tick())

    def due(self, vnode: int = 0) -> list[Horizon]:
        return self.compactions[vnode].due()

    def place(self, vnode: int) -> int:
        return applied_row(self.vnodes[vnode].tables).sequence

    def carry_out(self, vnode: int) -> None:
        for horizon in self.due(vnode):
            assert self.vnodes[vnode].write(1, horizon).accepted == [True]

    def topics(self, vnode: int) -> list[bytes]:
        return [topic for topic in (b"t", b"u") if self.vnodes[vnode].tables.get(RETAINED, retained_key(topic))]


def test_an_entry_that_is_covered_is_taken_out() -> None:
    pair = Pair()
    old = pair.publish(0, b"old")
    pair.publish(1, b"new", seen=old)
    assert pair.due(0) == [Horizon(b"t", old)]
    assert pair.due(1) == []


def test_what_is_shown_stays() -> None:
    pair = Pair()
    pair.publish(0, b"a")
    pair.publish(1, b"b", b"u")
    pair.pass_time(0, 10 * S)
    pair.pass_time(1, 10 * S)
    assert [pair.due(0), pair.due(1)] == [[], []]


def test_a_removal_goes_when_every_other_vnode_is_past_its_time() -> None:
    """A18: with the vnodes' times ten minutes apart, a message below the removal may come for ten minutes."""
    pair = Pair()
    pair.pass_time(0, TEN_MINUTES)
    removal = pair.publish(0, b"")
    assert pair.due(0) == []
    assert pair.publish(1, b"late") < removal, "it would have been shown"
    assert pair.due(0) == []
    pair.pass_time(1, TEN_MINUTES)
    assert pair.due(0) == [], "it hides the late one"
    pair.carry_out(1)
    assert pair.topics(1) == []
    pair.pass_time(1, S)
    assert pair.due(0) == [Horizon(b"t", removal)]


def test_a_message_behind_the_removal_covers_it() -> None:
    pair = Pair()
    removal = pair.publish(0, b"")
    pair.pass_time(1, 10 * S)
    pair.publish(1, b"again", seen=removal)
    assert pair.due(0) == [Horizon(b"t", removal)]


def test_a_finding_waits_for_the_beats_of_the_members() -> None:
    """A18: a member that has not come to where the leader looked would show the message again."""
    pair = Pair()
    pair.publish(1, b"deleted")
    pair.pass_time(1, 10 * S)
    removal = pair.publish(0, b"", seen=pair.publish(1, b"deleted, too"))
    pair.carry_out(1)
    pair.pass_time(1, 10 * S)
    looked = pair.place(1)
    pair.passed = {0: 0, 1: looked - 1}
    assert pair.due(0) == []
    pair.pass_time(1, S)
    assert pair.due(0) == []
    pair.passed = {0: 0, 1: looked}
    assert pair.due(0) == [Horizon(b"t", removal)], "it was found at that place, whatever came later"


def test_an_entry_that_expired_is_a_removal() -> None:
    pair = Pair()
    at = pair.vnodes[0]
    version = pair.publish(0, b"short", expires_us=at.now_us + 5 * S)
    pair.pass_time(1, 20 * S)
    assert pair.due(0) == []
    pair.pass_time(0, 20 * S)
    assert pair.due(0) == [Horizon(b"t", version)]


def test_an_entry_that_was_erased_is_a_removal() -> None:
    pair = Pair()
    version = pair.publish(0, b"personal")
    pair.pass_time(1, 10 * S)
    assert pair.due(0) == []
    pair.erasures = Erasures([Erasure("p", (), {0: 1 << 62}, version, "ops@host")])
    assert pair.due(0) == [Horizon(b"t", version)]


def test_a_table_without_changes_is_not_read_again() -> None:
    pair = Pair()
    pair.publish(0, b"kept")
    assert pair.due(0) == []
    reads: list[bytes] = []
    tables = pair.vnodes[1].tables
    get = tables.get

    def noted(family: str, key: bytes) -> bytes | None:
        if family == RETAINED:
            reads.append(key)
        return get(family, key)

    tables.get = noted  # type: ignore[method-assign]
    assert pair.due(0) == []
    assert reads == []
    pair.publish(1, b"new", b"u")
    reads.clear()
    assert pair.due(0) == []
    assert reads == [retained_key(b"t")]


def test_work_of_a_second_is_bounded() -> None:
    pair = Pair()
    count = 2 * ROWS + 10
    for number in range(count):
        pair.publish(0, b"", b"%04d" % number)
    pair.pass_time(1, 10 * S)
    found = [pair.due(0) for _second in range(3)]
    assert [len(horizons) for horizons in found] == [ROWS, ROWS, 10]
    assert sorted(one.topic for horizons in found for one in horizons) == [b"%04d" % n for n in range(count)]


def test_an_entry_that_cannot_be_read_is_left_alone() -> None:
    pair = Pair()
    pair.publish(0, b"")
    pair.vnodes[1].tables._families.setdefault(RETAINED, {})[retained_key(b"t")] = b"\x07"
    pair.pass_time(1, 10 * S)
    assert pair.due(0) == []
