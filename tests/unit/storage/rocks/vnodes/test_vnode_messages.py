"""Messages of vnodes: where the log put them, in families that come and go with their generations."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.durable.changes import Changes
from holdfast.durable.state_machine.tables import META
from holdfast.model.errors import MisuseError, PermanentError, TransientError
from holdfast.records.cluster.items import Border, ChangeSettings, DropGeneration
from holdfast.records.generations import family_name
from holdfast.records.meta_keys import generation_key
from holdfast.records.pages.commit_pages import CommitPage
from holdfast.storage.rocks.engine.engine import Engine
from tests.unit.durable.state_machine.vnode import S, message
from tests.unit.storage.rocks.vnodes.vnode_world import (
    VNODES,
    Logs,
    Node,
    log_families,
    opened,
    settings_of,
    shard_of,
)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with opened(tmp_path) as engine:
        yield engine


@pytest.fixture
def node(engine: Engine) -> Node:
    return Node(engine)


@pytest.fixture
def logs() -> Logs:
    return Logs()


FIRST = [family_name(shard, 1) for shard in range(2 * VNODES)]


def payloads(node: Node, levels: tuple[bytes, ...] = (), since_us: int = 1) -> dict[int, list[bytes]]:
    return {shard: [one.payload for one in found] for shard, found in node.replay(levels, since_us).items() if found}


@pytest.mark.parametrize("layout", ["paged", "timeline", "bitmask"])
def test_messages_are_read_at_once_and_after_a_restart(engine: Engine, layout: str) -> None:
    logs, node = Logs(layout=layout), Node(engine)
    for vnode in range(VNODES):
        logs.write(vnode, message(b"a/b", b"1"), message(b"audit/x", b"2"), message(b"a/c", b"3"))
        logs.write(vnode, message(b"a/b", b"4", qos=0), message(b"a/b", b"5"))
    expected = {shard_of(vnode): [b"1", b"3", b"5"] for vnode in range(VNODES)}
    expected |= {shard_of(vnode, "audit"): [b"2"] for vnode in range(VNODES)}
    outcomes = node.catch_up(logs)
    for at in (node, node.restarted()):
        assert payloads(at) == expected
        assert payloads(at, (b"a", b"b")) == {shard_of(vnode): [b"1", b"5"] for vnode in range(VNODES)}
        for published in [one for outcome in outcomes for one in outcome.published if one.serial]:
            place = published.message
            assert at.stores.log.at(place.shard, (), place.position_us) == place
            assert at.stores.log.at(place.shard, (b"z",), place.position_us) is None
            assert at.stores.log.at(place.shard, (), place.position_us + 9) is None
        first = [outcome.published[0].message for outcome in outcomes if outcome.published]
        assert [at.stores.log.at(one.shard, (), one.position_us - 1) for one in first] == [None] * len(first)


def test_a_record_is_one_commit_page_in_each_shard(engine: Engine, node: Node, logs: Logs) -> None:
    """L18: messages share a key, as on one node."""
    logs.write(0, *[message(b"a", b"%d" % number) for number in range(5)], message(b"audit/x"))
    logs.write(0, message(b"a", b"5"))
    node.catch_up(logs)
    pages = [CommitPage(value) for _key, value in engine.family(family_name(shard_of(0), 1)).items()]
    assert [(page.first_serial, page.count) for page in pages] == [(1, 5), (6, 1)]


def test_heads_are_what_was_applied(node: Node, logs: Logs) -> None:
    node.catch_up(logs)
    assert node.stores.log.heads() == dict.fromkeys(range(2 * VNODES), 0)
    logs.write(1, message(b"audit/x"))
    (outcome,) = node.catch_up(logs)
    for at in (node, node.restarted()):
        assert at.stores.log.heads()[shard_of(1, "audit")] == outcome.published[0].message.position_us
        assert at.stores.log.heads()[shard_of(1)] == 0


def test_a_border_inside_a_record_divides_its_messages(engine: Engine, node: Node, logs: Logs) -> None:
    later_us = logs.now_us + 50 * S
    logs.write(
        0,
        message(payload=b"1"),
        Border("default", 2, "paged", {}, b"", later_us),
        message(payload=b"2"),
        Border("default", 3, "timeline", {}),
        message(payload=b"3"),
        message(payload=b"4"),
    )
    outcome = node.catch_up(logs)[-len(logs.entries[1]) - 1]
    assert outcome.accepted == [True] * 6
    counts = [len(list(engine.family(family_name(0, number)).items())) for number in (1, 2, 3)]
    assert counts == [1, 1, 2]
    for at in (node, node.restarted()):
        assert payloads(at) == {0: [b"1", b"2", b"3", b"4"]}
        assert payloads(at, since_us=later_us) == {0: [b"2", b"3", b"4"]}
        assert at.stores.log.boundary_after(1) == later_us


def test_a_generation_that_is_begun_and_dropped_by_one_record_leaves_nothing(
    engine: Engine, node: Node, logs: Logs
) -> None:
    logs.write(
        0,
        Border("default", 2, "paged", {}),
        message(payload=b"gone"),
        Border("default", 3, "paged", {}),
        DropGeneration("default", 2),
        message(payload=b"stays"),
    )
    node.catch_up(logs)
    for at in (node, node.restarted()):
        assert payloads(at) == {0: [b"stays"]}
        assert log_families(engine) == sorted([*FIRST, family_name(0, 3)])


def lost_by(node: Node, from_us: int) -> list[tuple[int, int, int]]:
    """What a reader of shard 0 is told that it lost: ranges, and how many messages."""
    scan = node.stores.log.scan(0, (), from_us)
    while scan.from_us <= node.stores.log.heads()[0]:
        scan.next(2, 2**62)
    return [(lost.from_us, lost.to_us, lost.at_most) for lost in scan.lost]


def test_what_was_dropped_is_reported_also_after_a_restart(engine: Engine, node: Node, logs: Logs) -> None:
    positions = []
    for number in range(1, 5):
        logs.write(0, message(payload=b"%d" % number), message(payload=b"%d again" % number))
        positions.append(logs.now_us)
        logs.write(0, Border("default", number + 1, "paged", {}))
    node.catch_up(logs)
    scan = node.stores.log.scan(0, (), positions[0])
    assert [one.payload for one in scan.next(1, 2**62)] == [b"1"]
    for number in (1, 3):
        logs.write(0, DropGeneration("default", number))
        node.catch_up(logs)
    assert family_name(0, 1) not in engine.families()
    assert family_name(0, 3) not in engine.families()
    # A scan that was under way hears of it as well.
    assert [one.payload for one in scan.next(9, 2**62)] == [b"2", b"2 again"]
    ranges = [(positions[0], positions[0] + S, 2), (positions[1] + S, positions[2] + S, 2)]
    for at in (node, node.restarted()):
        assert lost_by(at, positions[0]) == ranges
    assert payloads(node) == payloads(node.restarted()) == {0: [b"2", b"2 again", b"4", b"4 again"]}


def test_a_generation_that_is_sealed_and_dropped_by_one_record_is_not_read_from_memory(node: Node, logs: Logs) -> None:
    logs.write(0, message(payload=b"1"))
    logs.write(0, Border("default", 2, "paged", {}), message(payload=b"2"))
    logs.write(0, Border("default", 3, "paged", {}), DropGeneration("default", 2), message(payload=b"3"))
    node.catch_up(logs)
    for at in (node, node.restarted()):
        scan, found = at.stores.log.scan(0, (), 1), list[bytes]()
        while scan.from_us <= at.stores.log.heads()[0]:
            found += [one.payload for one in scan.next(9, 2**62)]
        assert found == [b"1", b"3"]
        assert [lost.at_most for lost in scan.lost] == [1]


def test_a_reader_does_not_go_on_in_a_generation_that_was_dropped(engine: Engine) -> None:
    """Its cursor and its pages would still show what is gone, and keep the disk space."""
    logs = Logs(layout="timeline")
    logs.write(0, *[message(payload=b"%d" % number) for number in range(4)])
    logs.write(0, Border("default", 2, "timeline", {}), message(payload=b"4"))
    Node(engine).catch_up(logs)
    node = Node(engine)
    scan, other = [node.stores.log.scan(0, (), 1) for _reader in range(2)]
    for one in (scan, other):
        assert [found.payload for found in one.next(2, 2**62)] == [b"0", b"1"]
    logs.write(0, DropGeneration("default", 1))
    node.catch_up(logs)
    assert [found.payload for found in scan.next(2, 2**62)] == [b"4"]
    assert [lost.at_most for lost in scan.lost] == [4]
    assert [found.payload for found in node.stores.log.scan(0, (), 1).next(2, 2**62)] == [b"4"]


def test_all_that_was_dropped_is_reported_before_the_next_message_comes(node: Node, logs: Logs) -> None:
    logs.write(0, message(), message())
    since_us = logs.now_us
    logs.write(0, Border("default", 2, "paged", {}), DropGeneration("default", 1))
    node.catch_up(logs)
    for at in (node, node.restarted()):
        assert lost_by(at, since_us) == [(since_us, since_us + 2, 2)]


# ---- crashes between families and batches


def test_a_family_whose_record_was_lost_is_used_when_the_record_comes_again(
    engine: Engine, node: Node, logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.catch_up(logs)
    logs.write(0, Border("default", 2, "paged", {}), message(payload=b"1"))

    def killed(_number: int, _changes: Changes) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        dying.setattr(engine, "write", killed)
        with pytest.raises(KeyboardInterrupt):
            node.catch_up(logs)
    assert family_name(0, 2) in engine.families()
    again = node.restarted()
    assert log_families(engine) == sorted([*FIRST, family_name(0, 2)]), (
        "dropped and made again it would end secondaries"
    )
    assert payloads(again) == {}
    again.catch_up(logs)
    assert payloads(again) == {0: [b"1"]}


def test_a_family_that_holds_something_without_a_row_goes(engine: Engine, node: Node, logs: Logs) -> None:
    node.catch_up(logs)
    for name in (family_name(0, 2), family_name(77, 1)):
        engine.create_family(name)
        changes = Changes()
        changes.into(name).put(b"\x01", b"of a database that was repaired")
        engine.write(engine.written + 1, changes)
    node.restarted()
    assert log_families(engine) == FIRST


def test_a_family_whose_generation_was_dropped_goes_at_the_next_start(
    engine: Engine, node: Node, logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs.write(0, message(), Border("default", 2, "paged", {}), message(payload=b"2"))
    node.catch_up(logs)
    logs.write(0, DropGeneration("default", 1))

    def killed(_name: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        dying.setattr(engine, "drop_family", killed)
        with pytest.raises(KeyboardInterrupt):
            node.catch_up(logs)
    assert family_name(0, 1) in engine.families()
    again = node.restarted()
    assert family_name(0, 1) not in engine.families()
    assert payloads(again) == {0: [b"2"]}
    assert again.catch_up(logs) == []


def test_a_family_that_cannot_be_dropped_now_is_dropped_later(
    engine: Engine, node: Node, logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs.write(0, Border("default", 2, "paged", {}))
    node.catch_up(logs)
    logs.write(0, DropGeneration("default", 1))

    def full(_name: str) -> None:
        raise TransientError("no room")

    with monkeypatch.context() as refusing:
        refusing.setattr(engine, "drop_family", full)
        node.catch_up(logs)
    assert family_name(0, 1) in engine.families()
    logs.write(0, message())
    node.catch_up(logs)
    assert family_name(0, 1) not in engine.families()


def test_a_generation_without_its_family_gets_one(engine: Engine, node: Node, logs: Logs) -> None:
    node.catch_up(logs)
    engine.drop_family(family_name(0, 1))
    again = node.restarted()
    assert log_families(engine) == FIRST
    logs.write(0, message(payload=b"1"))
    again.catch_up(logs)
    assert payloads(again) == {0: [b"1"]}


def test_a_record_without_room_for_its_family_is_written_later(
    engine: Engine, node: Node, logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.catch_up(logs)
    logs.write(0, message(payload=b"1"), Border("default", 2, "paged", {}), message(payload=b"2"))
    scan = node.stores.log.scan(0, (), 1)
    with monkeypatch.context() as full:
        full.setattr(engine, "_reserve_bytes", 2**62)
        with pytest.raises(TransientError):
            node.catch_up(logs)
        with pytest.raises(TransientError):
            node.stores.vnodes[0].retry()
        assert node.stores.log.heads()[0] == 0
        assert scan.next(9, 2**62) == []
    node.stores.vnodes[0].retry()
    assert payloads(node) == payloads(node.restarted()) == {0: [b"1", b"2"]}
    assert [one.payload for one in scan.next(9, 2**62)] == [b"1", b"2"]


def test_readers_let_go_of_a_database_that_has_to_be_opened_again(engine: Engine) -> None:
    logs = Logs(layout="timeline")
    for number in range(5):
        logs.write(0, message(payload=b"%d" % number))
    Node(engine).catch_up(logs)
    # What it reads is not in memory, and the layout keeps a cursor while a reader waits.
    node = Node(engine)
    scan = node.stores.log.scan(0, (), 1)
    assert [one.payload for one in scan.next(2, 2**62)] == [b"0", b"1"]
    for vnode in range(VNODES):
        logs.write(vnode, message(payload=b"5"))
    engine._broken = "an append found no room"
    with pytest.raises(TransientError, match="iterators"):
        node.catch_up(logs)
    assert not engine.is_open()
    with pytest.raises(TransientError):
        node.stores.vnodes[1].session("c")
    # The other vnode has nothing to write again, and makes the tables readable all the same.
    node.stores.vnodes[1].retry()
    assert engine.is_open()
    node.stores.vnodes[0].retry()
    node.catch_up(logs)
    assert [one.payload for one in scan.next(9, 2**62)] == [b"2", b"3", b"4", b"5"]
    assert payloads(node)[shard_of(1)] == [b"5"]


# ---- what is refused


def test_a_shard_of_two_vnodes_is_refused(node: Node, logs: Logs) -> None:
    logs.entries[1].clear()
    logs.write(1, ChangeSettings(1, settings_of(0)))
    with pytest.raises(PermanentError, match="shard 0 is in vnode 0"):
        node.catch_up(logs)
    assert node.applied(1) == 0


def test_a_layout_that_keeps_an_index_in_memory_is_refused(engine: Engine, node: Node, logs: Logs) -> None:
    """L9, L10: a cluster has no learned structure, and says so."""
    logs.write(0, Border("default", 2, "learned", {}))
    with pytest.raises(PermanentError, match="'learned'; a node of a cluster stores paged"):
        node.catch_up(logs)
    assert node.applied(0) == len(logs.entries[0]) - 1
    assert node.stores.vnodes[0].get(META, generation_key("default", 2)) is None
    assert log_families(engine) == sorted(family_name(shard, 1) for shard in (0, 1))


def test_a_scan_of_an_unknown_shard_is_a_mistake(node: Node) -> None:
    with pytest.raises(MisuseError):
        node.stores.log.scan(9, (), 1)
    assert node.stores.log.at(9, (), 1) is None
