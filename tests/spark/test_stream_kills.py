"""Streams under load while their driver, workers and executors, the history process and the broker are killed.

Every message that a publisher was told is stored comes out of the stream, and no place of the log comes out twice.
Generations begin and are dropped meanwhile: a lease keeps what the stream has not read.

HOLDFAST_SPARK_KILLS=20 kills so often of each kind, instead of the few times that CI has patience for.
"""

import os
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from holdfast.storage.rocks.log.leases import read_leases
from holdfast.storage.rocks.log.published_heads import read_heads
from tests.history.processes import Broker, until
from tests.spark.stream_kills import Driver, Publisher, kill_history

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]

KILLS = int(os.environ.get("HOLDFAST_SPARK_KILLS", "0"))
SEED = int(os.environ.get("HOLDFAST_SPARK_SEED", "1"))

STORAGE = (
    "storage.shards=2",
    "storage.generation_bytes=2097152",
    "storage.retention_bytes=6291456",
)
#: By their names, some are of the first shard and some of the second.
PUBLISHERS = ("saw", "mill", "lathe")
#: After how many further batches the next kill may come, and how many seconds later.
_BATCHES, _LATER_S = 2, 0.5
#: Starts of a stream before it counts as failed.
_MOST_STARTS = 6 + 2 * KILLS
#: Messages that publishers may be ahead of the stream.
_BEHIND = 3_000
#: Until the first batch: Java has to start, on a machine that may be busy.
_PATIENCE_S = 300.0

#: Where Spark runs, where it reads, and what is killed how often in CI.
RUNS = {
    "path": ("local[2,8]", {"driver": 0, "worker": 1, "broker": 1}),
    "endpoint": ("local[2,8]", {"driver": 1, "worker": 1, "history": 2, "broker": 1}),
    "cluster": ("local-cluster[2,1,1024]", {"executor": 1}),
}


class Run:
    """Publishers, broker and stream, and what has been killed."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.broker = Broker(folder, *STORAGE)
        where = {"path": str(self.broker.data)} if kind == "path" else {"endpoint": self.broker.endpoint}
        options = {**where, "lease": "test", "columns": "shard,serial,payload", "rowsPerPartition": "300"}
        self.driver = Driver(folder, RUNS[kind][0], options)
        self.publishers = [
            Publisher(name, self.broker.port, SEED + len(name), 0.02, self._is_behind) for name in PUBLISHERS
        ]
        self.killed: Counter[str] = Counter()
        self._dice = Random(SEED)
        self._pause = threading.Event()

    def start(self) -> None:
        """Publishers begin when the stream has its lease: what is dropped before is not its business."""
        self.broker.start()
        until(self.broker.history_pids, "the broker runs")
        self.driver.start()
        until(lambda: not self.driver.alive or read_leases(self.broker.data), "there is a lease", _PATIENCE_S)
        assert self.driver.alive, self.driver.log()[-6000:]
        for publisher in self.publishers:
            publisher.start()

    def _is_behind(self) -> bool:
        return (
            sum(len(publisher.sent) for publisher in self.publishers) > sum(self.driver.committed().values()) + _BEHIND
        )

    def kill(self, what: str) -> None:
        """At some instant of work, and see to it that everything runs again."""
        self._until_it_has_moved()
        acts: dict[str, Callable[[], bool]] = {
            "driver": self._kill_driver,
            "worker": self.driver.kill_worker,
            "executor": self.driver.kill_executor,
            "history": lambda: kill_history(self.broker),
            "broker": self._kill_broker,
        }
        self._pause.wait(_LATER_S * self._dice.random())
        until(acts[what], f"there is a {what} to kill")
        self.killed[what] += 1

    def catch_up(self) -> None:
        """Until everything that is stored is through."""
        heads = {shard: head.serial for shard, head in read_heads(self.broker.data).items() if head.serial}
        until(lambda: not self._runs() or self.driver.committed() == heads, "it catches up", _PATIENCE_S)
        assert self.driver.alive, self.driver.log()[-6000:]

    def close(self) -> None:
        if self.driver.starts:
            self.driver.kill()
        if self.broker.process is not None:
            self.broker.end()

    def _until_it_has_moved(self) -> None:
        before = self.driver.commits()
        until(lambda: not self._runs() or self.driver.commits() >= before + _BATCHES, "batches come", _PATIENCE_S)
        assert self.driver.alive, self.driver.log()[-6000:]

    def _runs(self) -> bool:
        """A stream waits a minute for an endpoint that is away, and on a busy machine a start takes longer. It is
        started again then, as its operator would. It ends for no other reason.
        """
        if self.driver.alive:
            return True
        gave_up = "TransientError: grpc://" in self.driver.log()[-6000:]
        if gave_up and self.driver.starts <= _MOST_STARTS:
            self._kill_driver()
        return self.driver.alive

    def _kill_driver(self) -> bool:
        self.driver.kill()
        self.driver.start()
        return True

    def _kill_broker(self) -> bool:
        self.broker.end(9)
        self.broker.start()
        return True


@pytest.mark.parametrize("kind", RUNS)
def test_a_stream_gives_every_acknowledged_message_once_whatever_is_killed(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    run = Run(tmp_path, kind)
    plan = [what for what, count in RUNS[kind][1].items() for _time in range(KILLS or count)]
    Random(SEED).shuffle(plan)
    try:
        run.start()
        for what in plan:
            run.kill(what)
        for publisher in run.publishers:
            publisher.finish()
        run.catch_up()
    finally:
        run.close()

    # What a payload is filled up with is of no interest, and with many kills too much for one process.
    read_back = spark.read.parquet(str(tmp_path / "out"))
    rows = read_back.selectExpr("shard", "serial", "substring(payload, 1, 40) as payload").collect()
    places = Counter((row.shard, row.serial) for row in rows)
    assert [place for place, count in places.items() if count > 1] == []
    assert {shard for shard, _serial in places} == {0, 1}
    for shard in (0, 1):
        serials = sorted(serial for found, serial in places if found == shard)
        assert serials == list(range(1, len(serials) + 1))
    read = {bytes(row.payload).rpartition(b" ")[0] + b" " for row in rows}
    for publisher in run.publishers:
        assert publisher.acknowledged <= read
        read -= publisher.sent
    assert read == set()
    drops = len(run.broker.said("generation dropped"))
    print(f"{kind}: {len(rows)} rows, killed {dict(run.killed)}, driver started {run.driver.starts}, {drops} drops")
