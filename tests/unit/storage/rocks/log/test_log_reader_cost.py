"""What the first page of a replay costs, in keys read and seeks done."""

from typing import Any

import pytest
from rocksdict import RdictIter, ReadOptions

from holdfast.durable.zones import Zone
from tests.replays import replay_of
from tests.unit.storage.rocks.log.store import OpenStore, Store, levels


class CountingFamily:
    """A column family that counts what is read of it."""

    def __init__(self, cells: Any, counter: list[int]) -> None:
        self._cells = cells
        self._counter = counter

    def get(self, key: Any) -> Any:
        self._counter[0] += len(key) if isinstance(key, list) else 1
        return self._cells.get(key)

    def iter(self, read_opt: ReadOptions | None = None) -> "CountingCursor":
        return CountingCursor(self._cells.iter(read_opt), self._counter)


class CountingCursor:
    def __init__(self, cursor: RdictIter, counter: list[int]) -> None:
        self._cursor = cursor
        self._counter = counter

    def __getattr__(self, name: str) -> Any:
        if name in ("seek", "next", "seek_for_prev", "prev", "seek_to_last", "seek_to_first"):
            self._counter[0] += 1
        return getattr(self._cursor, name)


class CountingFamilies:
    def __init__(self, store: Store) -> None:
        self._engine = store.engine
        self.counter = [0]

    def family(self, name: str) -> Any:
        return CountingFamily(self._engine.family(name), self.counter)

    def families(self) -> list[str]:
        return self._engine.families()

    def create_family(self, name: str) -> None:
        raise AssertionError(name)

    def drop_family(self, name: str) -> None:
        raise AssertionError(name)


def _cost(store: Store, text: str, since_us: int) -> int:
    """Keys read and seeks done until the first page is there."""
    counting = CountingFamilies(store)
    page = replay_of(store.reader_over(counting), levels(text), since_us).next(10)
    assert len(page.messages) == 10
    return counting.counter[0]


@pytest.mark.slow
@pytest.mark.cluster_too
@pytest.mark.parametrize("text", ["#", "plant/+/temp", "plant/7/temp"])
@pytest.mark.parametrize("layout", ["timeline", "learned"])
def test_the_cost_of_starting_does_not_grow_with_the_log(open_store: OpenStore, layout: str, text: str) -> None:
    """L8: keys read and seeks done for a first page, from the same distance to the end, in a log ten times as long."""
    store = open_store(default=Zone("default", layout=layout))
    costs = []
    for length in (1, 10):
        for _ in range(length):
            store.clock.advance(1_000)
            for _turn in range(3):
                store.publish(*[f"plant/{n % 20}/temp" for n in range(400)])
            store.rotate()
        store.publish(*[f"plant/{n % 20}/temp" for n in range(400)])
        since_us = store.written[-1_200].position_us
        store.reopen(default=Zone("default", layout=layout))
        costs.append(_cost(store, text, since_us))
    assert costs[1] <= costs[0] * 1.5 + 10, costs
