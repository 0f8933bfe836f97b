"""A flood of topics that come once: what the learned layout keeps of them, and does in one commit, is bounded."""

from pathlib import Path

import pytest

from holdfast.durable.changes import Changes
from holdfast.storage.rocks.layouts import build
from holdfast.storage.rocks.layouts.build import make_layout
from holdfast.storage.rocks.layouts.learned import LearnedLayout
from holdfast.storage.rocks.layouts.postings import read_mark
from holdfast.wire.packets import Publish
from tests.disk_world import DiskWorld
from tests.unit.storage.rocks.layouts.store import Log, Store, record

CYCLE_BYTES = 200_000
#: Topics with one varying level that fill a tail: 460 bytes and their name each.
TOPICS = CYCLE_BYTES // 460
BATCH = 50


def flood(log: Log, batches: int, name: bytes) -> tuple[int, int]:
    """New topics in every commit, and nothing written behind in between; most topics in memory, most puts at once."""
    layout = log.layout
    assert isinstance(layout, LearnedLayout)
    topics = puts = 0
    for batch in range(batches):
        changes = Changes()
        for number in range(batch * BATCH, (batch + 1) * BATCH):
            log.last_us += 1
            topic = name % number
            layout.put(topic, log.last_us, record(topic, log.last_us), changes.into(log.family))
        layout.keep_up(log.cells, changes.into(log.family))
        puts = max(puts, len(changes.into(log.family).operations))
        log.store.write(changes)
        topics = max(topics, layout.topics_in_memory())
    return topics, puts


@pytest.mark.parametrize(("name", "levels"), [(b"f/%d/v", 3), (b"%d/a/b", 3), (b"a/b/c/d/%d", 5)])
def test_new_topics_do_not_pile_up_in_memory(store: Store, name: bytes, levels: int) -> None:
    """Two tails at most, whatever is published, and a few index entries for each message in its commit."""
    log = Log(store, make_layout("learned", {"thresholds": [0] * 5, "cycle_bytes": CYCLE_BYTES}))
    topics, puts = flood(log, 100, name)
    assert topics <= 2 * TOPICS + 4 * BATCH
    assert puts <= BATCH + 2 * BATCH * (levels + 1) + 2
    assert read_mark(log.cells) > 0
    first = name % 7
    assert log.read(first.decode()) == [8], "what was indexed on the way is found"
    last = name % (100 * BATCH - 1)
    assert log.read(last.decode()) == [100 * BATCH]
    assert log.read("#") == list(range(1, 100 * BATCH + 1))


def test_topics_that_come_again_cost_no_index_entries_in_their_commit(store: Store) -> None:
    log = Log(store, make_layout("learned", {"thresholds": [0], "cycle_bytes": CYCLE_BYTES}))
    flood(log, 2, b"f/%d/v")
    before = log.last_us
    changes = Changes()
    for number in range(BATCH):
        log.layout.put(b"f/%d/v" % number, before + number + 1, b"", changes.into(log.family))
    log.layout.keep_up(log.cells, changes.into(log.family))
    assert len(changes.into(log.family).operations) == BATCH


def test_a_posting_of_many_topics_is_written_in_small_pieces(store: Store) -> None:
    """`temp` is a token of all of them: no step looks into all of them at once."""
    log = Log(store, make_layout("learned", {"thresholds": [0], "cycle_messages": 5_000}))
    log.put(*[b"p/%d/temp" % number for number in range(5_000)])
    done = []
    while count := log.write_behind(100_000):
        done.append(count)
    log.layout.settle(log.cells)
    assert len(done) > 2, "pieces of a thousand topics end a slice"
    assert log.read("p/+/temp") == log.read("p/#") == list(range(1, 5_001))


def test_a_commit_with_new_topics_takes_index_entries_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One client, QoS 0, ever new topics: memory is bounded though nothing is written behind meanwhile."""
    monkeypatch.setitem(build._DEFAULTS["learned"], "cycle_bytes", CYCLE_BYTES)
    with DiskWorld(tmp_path, storage={"layout": "learned"}) as world:
        writer = world.connect("flood")
        (zone_log,) = world.disk.log.zone_logs.values()
        (piece,) = zone_log.live[-1].by_shard.values()
        assert isinstance(piece.layout, LearnedLayout)
        most = 0
        for batch in range(20):
            writer.send(*(Publish(f"f/{batch}-{number}/v", b"x") for number in range(200)))
            most = max(most, piece.layout.topics_in_memory())
        assert most <= 2 * TOPICS + 4 * 250
        assert world.broker.exchange.routes.cached_topics() < 400
