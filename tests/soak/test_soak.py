"""Nothing that a broker holds or does grows with its age. `make soak` lives a whole day, CI a share of it."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import structlog

from tests.soak.life import HOUR_S, Life
from tests.soak.meters import Meters, Sample, files, growth, memory_bytes, objects, table

#: Simulated hours.
HOURS = float(os.environ.get("HOLDFAST_SOAK_HOURS", "1"))
SAMPLES = 16
#: Seconds before the first sample: samples are taken in the middle of a generation, and compared at the same age of it.
WARM_UP_S = 1000

#: Of each value: how much larger its largest in the last quarter may be than in the second one, as a factor and as an
#: amount. Keys visited swing with RocksDB's compactions, memory with its memtables.
BOUNDS = {
    "memory_mb": (1.1, 16),
    "objects": (1.05, 500),
    "files": (1.2, 8),
    "keys_a_second": (1.2, 20),
    "visits_a_second": (1.5, 100),
    "connect_visits": (1.5, 60),
    "stop_keys": (1.5, 50),
    "start_visits": (1.5, 500),
}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """In memory where that can be had: power loss is not what this is about."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as name:
        yield Path(name)


@pytest.fixture
def few_log_lines() -> Iterator[None]:
    """A day has half a million lines about connections."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    yield
    structlog.reset_defaults()


@pytest.mark.slow
@pytest.mark.usefixtures("few_log_lines")
@pytest.mark.timeout(7200)
def test_nothing_grows_with_the_age_of_a_broker(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meters = Meters(monkeypatch)
    life = Life(folder)
    samples: list[Sample] = []
    part_s = int(HOURS * HOUR_S) // SAMPLES
    life.live(WARM_UP_S)
    for part in range(SAMPLES):
        visited, written = meters.keys_visited(), meters.keys_written
        life.live(WARM_UP_S + (part + 1) * part_s - life.second)
        sample = Sample(life.second / HOUR_S)
        sample.values["keys_a_second"] = (meters.keys_written - written) // part_s
        sample.values["visits_a_second"] = (meters.keys_visited() - visited) // part_s
        sample.values["range_tombstones"] = meters.range_tombstones
        life.pass_second([client.lose for client in life.subscribers])
        visited = meters.keys_visited()
        for client in life.subscribers:
            client.connect()
        life.world.settle()
        sample.values["connect_visits"] = (meters.keys_visited() - visited) // len(life.subscribers)
        life.pass_second([])
        written = meters.keys_written
        life.stop()
        sample.values["stop_keys"] = meters.keys_written - written
        visited = meters.keys_visited()
        life.start()
        sample.values["start_visits"] = meters.keys_visited() - visited
        sample.values["memory_mb"] = memory_bytes() >> 20
        sample.values["objects"] = objects()
        sample.values["files"] = files(folder)
        samples.append(sample)
        print(table(samples[-1:]), flush=True)
    life.stop()
    shown = table(samples)
    assert samples[-1].values["range_tombstones"] == 0, shown
    for name, (factor, amount) in BOUNDS.items():
        before, after = growth(samples, name)
        assert after <= before * factor + amount, f"{name} grew from {before} to {after}\n{shown}"
    for client in life.subscribers:
        assert client.received > part_s, f"{client.name} received {client.received} messages"
    # Of all connects but the first, and those that asked for a clean start, each found its session.
    assert all(
        sum(not present for present in client.presences) <= 1 + life.second // 300 for client in life.subscribers
    )
