"""Versions order channels in one way only, and a registry holds one channel per client id."""

import itertools

import pytest

from holdfast.durable.takeover.registry import (
    NOBODY,
    ChannelVersion,
    CommitLost,
    Committed,
    MemoryRegistry,
    Registration,
    Registry,
    VersionClock,
    decode_version,
)
from holdfast.model.clock import ManualClock
from holdfast.model.errors import MisuseError, PermanentError
from holdfast.model.ids import ClientId
from tests.unit.durable.takeover.lagging_registry import Change, LaggingRegistry, at_once

pytestmark = pytest.mark.compiled

CLIENT = ClientId("pump-7")
MS_US = 1000
#: 2023-11-14T22:13:20Z, where a ManualClock starts.
START_MS = 1_700_000_000_000


def channel(number: int, *, node: int = 1, at_ms: int = 0, client_id: ClientId = CLIENT) -> Registration:
    return Registration(client_id, node, number, ChannelVersion(at_ms or number, node, number))


def test_versions_are_ordered_by_time_then_node_then_counter() -> None:
    """R7: the tie-break."""
    ordered = [ChannelVersion(*key) for key in itertools.product((1, 2), repeat=3)]
    for earlier, later in itertools.combinations(ordered, 2):
        assert earlier < later
        assert earlier <= later
        assert later > earlier
        assert later >= earlier
        assert earlier != later
        assert not later < earlier
        assert not later <= earlier
    assert len(set(ordered)) == len(ordered)


def test_fifty_connects_in_one_millisecond_over_several_nodes_have_one_order() -> None:
    """R7: equal timestamps never make equal versions, and each node's own order is kept."""
    clock = ManualClock()
    clocks = [VersionClock(clock, node) for node in (1, 2, 3)]
    versions = [clocks[i % 3].next() for i in range(50)]
    assert {version.connected_at_ms for version in versions} == {START_MS}
    assert len(set(versions)) == 50
    for node in range(3):
        own = versions[node::3]
        assert own == sorted(own)


def test_a_version_carries_the_wall_time_in_milliseconds() -> None:
    clock = ManualClock()
    clock.advance(1_999)
    assert VersionClock(clock, 4).next() == ChannelVersion(START_MS + 1, 4, 1)


def test_a_clock_set_back_does_not_make_older_versions() -> None:
    clock = ManualClock()
    versions = VersionClock(clock, 1)
    before = versions.next()
    clock.step_wall(-600_000_000)
    assert versions.next() > before


@pytest.mark.parametrize("node", [1, 9])
@pytest.mark.parametrize("ahead_ms", [-1, 0, 1, 600_000])
def test_a_clock_never_runs_behind_what_it_has_seen(node: int, ahead_ms: int) -> None:
    versions = VersionClock(ManualClock(), node)
    seen = ChannelVersion(START_MS + ahead_ms, 5, 77)
    versions.seen(seen)
    following = versions.next()
    assert following > seen
    assert following.connected_at_ms <= max(START_MS, seen.connected_at_ms + 1)


def test_an_older_version_that_is_seen_changes_nothing() -> None:
    versions = VersionClock(ManualClock(), 1)
    given = versions.next()
    versions.seen(ChannelVersion(START_MS - 5, 9, 9))
    assert versions.next() == ChannelVersion(given.connected_at_ms, 1, given.counter + 1)


def test_a_restarted_node_does_not_repeat_a_version_although_its_clock_does() -> None:
    clock = ManualClock()
    assert VersionClock(clock, 1, epoch=1).next() < VersionClock(clock, 1, epoch=2).next()


@pytest.mark.parametrize("version", [ChannelVersion(0, 0, 0), ChannelVersion(START_MS, 65_535, (7 << 32) + 1)])
def test_a_version_survives_its_text(version: ChannelVersion) -> None:
    assert decode_version(version.encode()) == version
    assert len(version.encode()) < 32


def test_the_text_of_a_version() -> None:
    assert ChannelVersion(START_MS, 2, 31).encode() == "18bcfe56800.2.1f"


@pytest.mark.parametrize(
    "text", ["", "1.2", "1.2.3.4", "x.1.1", "1..1", "-1.1.1", "01.1.1", "1.0x1.1", " 1.1.1", "A.1.1"]
)
def test_a_text_that_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(PermanentError, match="not a channel version"):
        decode_version(text)


def test_the_first_commit_expects_nobody() -> None:
    registry = MemoryRegistry()
    result = at_once(registry.commit(channel(1), NOBODY))
    assert isinstance(result, Committed)
    newest = registry.local_newest(CLIENT)
    assert newest == channel(1).at_revision(result.revision)
    assert newest == at_once(registry.read_newest(CLIENT))
    registry.check_invariants()


def test_a_commit_at_the_wrong_revision_changes_nothing_and_tells_who_is_there() -> None:
    registry = MemoryRegistry()
    at_once(registry.commit(channel(1), NOBODY))
    there = registry.local_newest(CLIENT)
    assert there is not None
    for wrong in (NOBODY, there.revision + 1):
        assert at_once(registry.commit(channel(2), wrong)) == CommitLost(there)
    assert registry.local_newest(CLIENT) == there
    assert at_once(registry.remove(there))
    assert at_once(registry.commit(channel(2), there.revision)) == CommitLost(None)


def test_every_commit_has_a_higher_revision_than_all_before_it() -> None:
    registry = MemoryRegistry()
    revisions: list[int] = []
    for number in range(1, 6):
        there = registry.local_newest(CLIENT)
        result = at_once(registry.commit(channel(number), there.revision if there else NOBODY))
        assert isinstance(result, Committed)
        revisions.append(result.revision)
        other = channel(number, client_id=ClientId(f"other-{number}"))
        assert isinstance(at_once(registry.commit(other, NOBODY)), Committed)
        if number == 3:
            assert at_once(registry.remove(channel(number)))
        registry.check_invariants()
    assert revisions == sorted(set(revisions))
    assert registry.count() == 6


def test_a_removal_never_takes_out_a_newer_registration() -> None:
    """R9: whatever the old one says of itself, committed or not."""
    registry = MemoryRegistry()
    at_once(registry.commit(channel(1), NOBODY))
    old = registry.local_newest(CLIENT)
    assert old is not None
    at_once(registry.commit(channel(2), old.revision))
    newer = registry.local_newest(CLIENT)
    assert not at_once(registry.remove(old))
    assert not at_once(registry.remove(channel(1)))
    assert registry.local_newest(CLIENT) == newer


@pytest.mark.parametrize("other", [channel(2), channel(1, node=2), Registration(CLIENT, 1, 1, channel(1).version, 1)])
def test_a_removal_compares_connection_node_and_epoch(other: Registration) -> None:
    """R9: a connection id alone names nobody, since other nodes and earlier lives count the same way."""
    registry = MemoryRegistry()
    at_once(registry.commit(channel(1), NOBODY))
    assert not at_once(registry.remove(other))
    assert at_once(registry.remove(channel(1)))
    assert not at_once(registry.remove(channel(1)))
    assert registry.local_newest(CLIENT) is None


def test_replacing_a_newer_registration_on_purpose_is_a_bug() -> None:
    registry = MemoryRegistry()
    at_once(registry.commit(channel(2), NOBODY))
    there = registry.local_newest(CLIENT)
    assert there is not None
    with pytest.raises(MisuseError, match="not older"):
        at_once(registry.commit(channel(1), there.revision))
    assert registry.local_newest(CLIENT) == there


def test_a_lagging_view_fulfils_the_contract_and_lags() -> None:
    changes: list[Change] = []
    real = MemoryRegistry()
    here, there = LaggingRegistry(real, changes), LaggingRegistry(real, changes)
    views: list[Registry] = [here, there]
    assert isinstance(at_once(views[0].commit(channel(1), NOBODY)), Committed)
    there.hear(1)
    assert (here.lag(), there.lag()) == (1, 0)
    assert views[0].local_newest(CLIENT) is None
    assert views[1].local_newest(CLIENT) == at_once(views[0].read_newest(CLIENT))
    assert at_once(views[1].remove(channel(1)))
    here.hear(5)
    assert views[0].local_newest(CLIENT) is None
    assert views[1].local_newest(CLIENT) is not None
