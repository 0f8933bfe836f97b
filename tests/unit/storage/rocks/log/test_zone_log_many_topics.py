"""A zone with more topics than anybody wants: what is learnt about them stays small, and says how large it is."""

import os
import tracemalloc
from pathlib import Path

import pytest

from holdfast.durable.zones import OS, Zone
from holdfast.topics.learned import DEFAULT_MAX_NODES, DEFAULT_MAX_STREAMS
from tests.unit.storage.rocks.log.store import Store, places

#: HOLDFAST_MANY_TOPICS=1000000 takes some minutes.
TOPICS = int(os.environ.get("HOLDFAST_MANY_TOPICS", "100000"))
_BATCH = 1_000
_MB = 1 << 20


def _device(n: int) -> str:
    return f"plant/{n}/temp"


def _chaos(n: int) -> str:
    """No two topics have a level in common, and no depth is the right one."""
    return "/".join(f"{n * 2654435761 % 2**32:x}{level}" for level in range(1 + n % 6))


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("shape", [_device, _chaos])
def test_the_memory_of_what_was_learnt_is_bounded_and_reported(tmp_path: Path, shape: object) -> None:
    """Nodes, streams and bytes have a bound that does not depend on how many topics there are."""
    assert callable(shape)
    store = Store(tmp_path / "data", default=Zone("default", durability=OS, layout="learned"))
    layout = store.zone_log().live[-1].by_shard[0].layout
    sizes = []
    for first in range(0, TOPICS, _BATCH):
        store.write(*[store.message(shape(n)) for n in range(first, first + _BATCH)])
        store.clock.advance(1_000)
        store.maintenance.write_index_slice()
        if (first + _BATCH) % (TOPICS // 4) == 0:
            learnt = layout.learned()
            assert learnt is not None
            assert learnt.node_count <= DEFAULT_MAX_NODES
            assert learnt.stream_count <= DEFAULT_MAX_STREAMS
            sizes.append(learnt.memory_bytes())
    store.settle()
    assert len(sizes) == 4
    assert sizes[0] > 0
    assert max(sizes) <= 24 * _MB
    for n in (0, TOPICS // 2, TOPICS - 1):
        store.reader.pages.clear()
        assert places(store.read(shape(n))) == places(store.written[n : n + 1])
    store.close()


@pytest.mark.slow
def test_the_memory_that_is_reported_is_about_what_is_taken(tmp_path: Path) -> None:
    store = Store(tmp_path / "data", default=Zone("default", durability=OS, layout="learned"))
    layout = store.zone_log().live[-1].by_shard[0].layout
    learnt = layout.learned()
    assert learnt is not None
    tracemalloc.start()
    try:
        for n in range(20_000):
            learnt.place(_chaos(n).encode())
        learnt.take_changes()
        taken_bytes = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken_bytes / 3 <= learnt.memory_bytes() <= taken_bytes * 3
    store.close()
