"""One log copied into another through the replication contract alone (L22)."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from holdfast.durable.changes import Changes
from holdfast.durable.replication import Chunk, Handover
from holdfast.model.clock import ManualClock
from holdfast.model.errors import MisuseError, PermanentError
from holdfast.model.message import Message
from holdfast.records.positions import AppliedMark
from holdfast.storage.rocks.checking.folder import verify_folder
from holdfast.storage.rocks.layouts.layout import MESSAGES, STRUCTURE
from holdfast.storage.rocks.layouts.making import LAYOUTS
from holdfast.storage.rocks.layouts.scan import scan_items
from holdfast.topics.filters import parse_filter
from tests.unit.storage.rocks.log_node import Node, some_message

FILTERS = [
    "#",
    "plant/#",
    "plant/+/temp",
    "plant/7/temp",
    "plant/31/+",
    "+/7/#",
    "$events/#",
    "$events/+/up",
    "status",
    "nothing/here",
]


class Source(Node):
    """The log that is copied: every commit is also kept as entries, shard by shard, for a follower."""

    def open(self) -> None:
        super().open()
        self.random = Random(self.number)
        self.entries: list[tuple[list[Message], Handover]] = []

    def write(self, count: int = 20) -> None:
        self.clock.advance(self.random.randrange(2_000))
        messages = [some_message(self.random, self.clock) for _index in range(count)]
        before = {shard: state.serial for shard, state in self.zone.shards.items()}
        self.taken(self.log.write(self.batch(messages)))
        for shard in sorted({message.shard for message in messages}):
            own = [message for message in messages if message.shard == shard]
            places = [(message.position_us, before[shard] + i + 1) for i, message in enumerate(own)]
            self.entries.append((own, Handover(shard, AppliedMark(places[-1][1], self.folder.name), places)))

    def fill(self, commits: int = 30, count: int = 20) -> None:
        for _index in range(commits):
            self.write(count)
        self.settle()

    def rotate(self) -> None:
        self.maintenance.rotate(self.zone)
        records = [generation.record for generation in self.zone.live[-2:]]
        for shard, state in self.zone.shards.items():
            mark = AppliedMark(state.serial, self.folder.name)
            self.entries.append(([], Handover(shard, mark, [], records)))


class Follower(Node):
    """The copy."""

    def follow(self, entries: list[tuple[list[Message], Handover]]) -> None:
        for messages, handover in entries:
            copies = [copied(message) for message in messages]
            self.taken(self.replication.append(self.batch(copies), handover))


def copied(message: Message) -> Message:
    """As it would come over a network: without its place."""
    return Message(message.topic, message.payload, message.qos, message.publisher, message.received_us)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def nodes(tmp_path: Path, clock: ManualClock) -> Iterator[tuple[Source, Follower]]:
    source, follower = Source(tmp_path / "first", clock), Follower(tmp_path / "second", clock)
    yield source, follower
    source.log.close()
    follower.log.close()


def replay(node: Node, text: str, shard: int) -> list[tuple[int, Message]]:
    walk = node.log.reading.start_replay(parse_filter(text.encode()).levels, 0)
    found: list[tuple[int, Message]] = []
    while True:
        page = walk.next(100)
        found += [(message.position_us, message) for message in page.messages if message.shard == shard]
        if page.at_end:
            return found


def stored(node: Node, tag: bytes, before: bytes) -> dict[str, list[tuple[bytes, bytes]]]:
    """Keys and values of every slice of the log; positions and serials are in the values."""
    families = [name for name in node.engine.families() if name.startswith("log-")]
    return {name: list(scan_items(node.engine.family(name), tag, before)) for name in families}


def check_same(source: Source, follower: Follower, *, keys: bool = True) -> None:
    source.settle()
    follower.settle()
    for shard in source.zone.shards:
        assert follower.replication.head(shard) == source.replication.head(shard)
        for text in FILTERS:
            assert replay(follower, text, shard) == replay(source, text, shard), text
    assert any(replay(source, text, 0) for text in ("plant/7/temp", "$events/#"))
    if keys:
        assert stored(follower, STRUCTURE, MESSAGES) == stored(source, STRUCTURE, MESSAGES)
        assert stored(follower, MESSAGES, b"\x02") == stored(source, MESSAGES, b"\x02")
    else:
        pairs = zip(stored(follower, MESSAGES, b"\x02").items(), stored(source, MESSAGES, b"\x02").items(), strict=True)
        for (own, copy), (name, original) in pairs:
            assert own == name
            assert sorted(value for _key, value in copy) == sorted(value for _key, value in original)


@pytest.mark.parametrize(
    "layout", [name if name == "learned" else pytest.param(name, marks=pytest.mark.slow) for name in LAYOUTS]
)
def test_a_log_is_copied_while_it_is_written(tmp_path: Path, clock: ManualClock, layout: str) -> None:
    """L22: snapshot and install, then append; with rotations before, during and after."""
    source = Source(tmp_path / "first", clock, layout=layout)
    follower = Follower(tmp_path / "second", clock, layout=layout)
    source.fill()
    source.rotate()
    source.fill()
    source.entries.clear()

    def under_way(shard: int) -> Iterator[Chunk]:
        for count, chunk in enumerate(source.replication.snapshot(shard)):
            yield chunk
            source.write(3)
            if count % 7 == 3:
                source.settle()
            if count == 10:
                source.rotate()

    for shard in source.zone.shards:
        follower.replication.install(shard, under_way(shard))
    follower.settle()
    follower.follow(source.entries)
    source.entries.clear()
    check_same(source, follower, keys=layout in ("learned", "timeline", "indexed"))
    source.rotate()
    source.fill()
    follower.follow(source.entries)
    follower.reopen()
    source.entries.clear()
    source.fill(5)
    follower.follow(source.entries)
    check_same(source, follower, keys=layout in ("learned", "timeline", "indexed"))
    assert [live.record.number for live in follower.zone.live] == [1, 2, 3, 4, 5]
    source.log.close()
    follower.log.close()


def test_replays_are_the_same_when_everything_is_indexed(nodes: tuple[Source, Follower]) -> None:
    """L22: postings are made by each log for itself, and lead to the same messages."""
    source, follower = nodes
    source.fill()
    source.rotate()
    source.fill()
    for shard in source.zone.shards:
        follower.replication.install(shard, source.replication.snapshot(shard))
    source.index()
    follower.index()
    assert follower.zone.finishing == []
    check_same(source, follower)
    follower.reopen()
    check_same(source, follower)


def test_a_snapshot_ends_at_the_durable_head(nodes: tuple[Source, Follower]) -> None:
    """L20, L22: what has no receipt does not leave the log."""
    source, follower = nodes
    source.fill()
    head = source.replication.head(0)
    source.write()
    assert source.zone.shards[0].serial > head[1]
    follower.replication.install(0, source.replication.snapshot(0))
    follower.settle()
    assert follower.replication.head(0) == head
    applied = follower.replication.applied(0)
    assert applied is not None
    assert (applied.sequence, applied.source) == (head[1], "first")


def test_an_interrupted_install_goes_on_where_it_stopped(nodes: tuple[Source, Follower]) -> None:
    """L22: also after a restart; chunks that come twice are not stored twice."""
    source, follower = nodes
    source.fill()
    source.rotate()
    source.fill()
    chunks = list(source.replication.snapshot(0))
    assert len(chunks) > 8
    follower.replication.install(0, chunks[:5])
    follower.settle()
    assert follower.replication.applied(0) is None
    follower.reopen()
    head_us, serial = follower.replication.head(0)
    assert (head_us, serial) == (chunks[4].done_us, chunks[4].serial)
    follower.replication.install(0, chunks[2:7])
    follower.settle()
    source.fill(5)
    follower.replication.install(0, source.replication.snapshot(0, follower.replication.head(0)[0]))
    follower.replication.install(1, source.replication.snapshot(1))
    check_same(source, follower)


def test_an_entry_is_applied_once(nodes: tuple[Source, Follower]) -> None:
    """L22: entries that come again, also after a restart, get a receipt and change nothing."""
    source, follower = nodes
    for shard in source.zone.shards:
        follower.replication.install(shard, source.replication.snapshot(shard))
    source.fill()
    source.rotate()
    source.fill(5)
    follower.follow(source.entries)
    follower.follow(source.entries[-30:])
    check_same(source, follower)
    assert follower.receipts[-1] == follower.number
    follower.reopen()
    follower.follow(source.entries[-30:])
    check_same(source, follower)
    assert follower.receipts[-1] == follower.number
    source.fill(5)
    follower.follow(source.entries)
    check_same(source, follower)


def test_shards_pass_a_border_each_for_itself(nodes: tuple[Source, Follower]) -> None:
    """L22: a shard that lags writes to the sealed generation, also after a restart, and inherits the same."""
    source, follower = nodes
    for shard in source.zone.shards:
        follower.replication.install(shard, source.replication.snapshot(shard))
    source.fill()
    source.rotate()
    source.fill()
    leading = [entry for entry in source.entries if entry[1].shard == 1]
    lagging = [entry for entry in source.entries if entry[1].shard == 0]
    follower.follow(leading)
    follower.follow(lagging[:11])
    follower.index()
    follower.log.close()
    assert verify_folder(follower.folder).problems == []
    follower.open()
    follower.index()
    follower.follow(lagging[11:13])
    follower.reopen()
    follower.follow(lagging[13:15])
    follower.index()
    follower.follow(lagging[15:])
    check_same(source, follower)
    follower.index()
    assert follower.zone.finishing == []
    check_same(source, follower)


def test_what_retention_dropped_is_told_by_the_copy_too(nodes: tuple[Source, Follower]) -> None:
    """L22: a cursor from before is told what it lost, whichever log it is used at."""
    source, follower = nodes
    source.fill()
    source.rotate()
    source.fill()
    source.maintenance.drop_oldest(source.zone)
    for shard in source.zone.shards:
        follower.replication.install(shard, source.replication.snapshot(shard))
    check_same(source, follower)
    follower.reopen()
    gone = source.zone.dropped[0]
    for node in (source, follower):
        lost = node.zone.lost(0, gone.start_us, gone.end_us)
        assert lost is not None
        assert lost.at_most == gone.last_serials[0] > 100


def test_a_snapshot_that_retention_overtakes_says_so(nodes: tuple[Source, Follower]) -> None:
    source, follower = nodes
    source.fill()
    source.rotate()
    source.fill()
    chunks = source.replication.snapshot(0)
    first = [next(chunks), next(chunks)]
    follower.replication.install(0, first)
    source.maintenance.drop_oldest(source.zone)
    with pytest.raises(PermanentError, match=r"generation 1 .* was dropped while shard 0 was copied"):
        next(chunks)
    with pytest.raises(PermanentError, match="messages between them are missing"):
        follower.replication.install(0, source.replication.snapshot(0, first[1].done_us))


def test_a_message_that_is_missing_is_not_skipped_in_silence(nodes: tuple[Source, Follower]) -> None:
    """L21, L22: a copy notices what its original has lost."""
    source, _follower = nodes
    source.fill()
    changes = Changes()
    key, _value = stored(source, MESSAGES, b"\x02")["log-00000-00000001"][20]
    changes.into("log-00000-00000001").delete(key)
    source.log.write_own(changes)
    with pytest.raises(PermanentError, match="messages between them are missing in log-00000-00000001"):
        list(source.replication.snapshot(0))


def test_what_does_not_follow_is_refused_and_changes_nothing(nodes: tuple[Source, Follower]) -> None:
    source, follower = nodes
    for shard in source.zone.shards:
        follower.replication.install(shard, source.replication.snapshot(shard))
    source.fill()
    source.rotate()
    source.fill()
    entries = [entry for entry in source.entries if entry[1].shard == 0]
    follower.follow(entries[:3])
    messages, fourth = entries[3]
    later = entries[4]
    with pytest.raises(PermanentError, match="messages between them are missing"):
        follower.follow([later])
    early = [(fourth.places[0][0] - 100_000_000, serial) for _position_us, serial in fourth.places]
    with pytest.raises(MisuseError, match=r"is at .* already"):
        follower.follow([(messages, Handover(0, fourth.mark, early))])
    with pytest.raises(MisuseError, match="follows 'first'"):
        follower.follow([(messages, Handover(0, AppliedMark(10_000, "third"), fourth.places))])
    with pytest.raises(MisuseError, match="messages and 0 places"):
        follower.follow([(messages, Handover(0, fourth.mark, []))])
    with pytest.raises(MisuseError, match="no zone has shard 9"):
        follower.replication.head(9)
    with pytest.raises(MisuseError, match="follows another log already"):
        follower.replication.install(0, [])
    (_first_us, first), (second_us, _second), *_rest = fourth.places
    sealed = follower.zone.live[0].record.sealed(second_us, (first, 0))
    with pytest.raises(MisuseError, match="is in no generation that has room for it"):
        follower.follow([(messages, Handover(0, fourth.mark, fourth.places, [sealed]))])
    follower.follow(entries[3:])
    follower.follow([entry for entry in source.entries if entry[1].shard == 1])
    check_same(source, follower)
