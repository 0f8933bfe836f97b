"""Client queues at scale: from one home to another, by all tasks of Spark at once.

1. Clients are listed when it begins, and added up by those who copy them. If these are not the same, somebody has used
   the queues meanwhile, and it is an error.
2. A journal is read by many and written by one: it is locked while it is read, and no home to copy into.
3. Killed at any moment and given again, the new home is the same in the end as if nothing had happened.
4. Sessions look in the new home when every queue is there, and not before.
"""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from holdfast.model.errors import PermanentError, TransientError
from holdfast.pipeline.migrate_task import Migration, Sums, copy_share, list_clients
from holdfast.pipeline.spark_errors import translated
from holdfast.pipeline.spark_session import session
from holdfast.pipeline.watched import watched
from holdfast.storage.queue_addresses import open_home, parse_home
from holdfast.storage.rocks.folder_lock import FolderLock
from holdfast.storage.rocks.session_homes import change_homes
from holdfast.storage.rocks.session_import import SessionImport
from holdfast.storage.tbmq import OwedPacket
from holdfast.storage.tbmq_addresses import parse_tbmq

#: Each share is a listing of all clients: not too many of them. More than tasks, because queues are not alike.
_SHARES_PER_TASK: Final = 4
#: Clients that a share is worth while for.
_CLIENTS_PER_SHARE: Final = 50
#: Numbers of 128 bits go as text.
_BIG: Final = ("listed", "checksum")
_RESULT: Final = pa.schema(
    [
        pa.field("queues", pa.int64()),
        pa.field("listed", pa.string()),
        pa.field("copied", pa.int64()),
        pa.field("messages", pa.int64()),
        pa.field("checksum", pa.string()),
        pa.field("expired", pa.int64()),
        pa.field("failed", pa.int64()),
        pa.field("reasons", pa.list_(pa.string())),
        pa.field("sessions", pa.binary()),
    ]
)

#: Is told the share that is done, and in words.
Progress = Callable[[float, str], None]


def run_migrate(work: Migration, master: str | None, begin: Callable[[str], None], progress: Progress) -> Sums:
    """Copy every queue. Spark is started if there is anything to do; `begin` is told what takes a while."""
    with _held(work):
        begin("listing clients")
        listed = asyncio.run(list_clients(work))
        if not listed.queues:
            return listed
        begin("starting Spark")
        spark = session("holdfast-migrate", master=master)
        done = _copied(spark, work, listed.queues, progress)
    if (done.queues, done.listed) != (listed.queues, listed.listed):
        raise PermanentError(
            f"{listed.queues:,} queues were listed, and {done.queues:,} were there when they were copied: "
            f"a broker uses them; stop it, and give the same command again"
        )
    return done


def change_sessions(data: Path, work: Migration) -> int:
    """Sessions look in the new home from now on; how many that were. Requires: every queue is there.

    Also those that have no queue in the old home: they have none in the new one, either.
    """
    return change_homes(data, _Wanted(work), parse_home(work.source).kind, parse_home(work.target).kind)


class _Wanted:
    """Queues by their names, without a list of them."""

    def __init__(self, work: Migration) -> None:
        self._work: Final = work

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._work.wants(name)


@contextmanager
def _held(work: Migration) -> Iterator[None]:
    """A journal has what a killed broker left brought home, and is locked. SettingsError: a broker has it."""
    folder = None if parse_tbmq(work.source) else parse_home(work.source).folder
    if folder is None:
        yield
        return

    async def bring_home() -> None:
        await (await open_home(work.source, work.clock)).close()

    asyncio.run(bring_home())
    lock = FolderLock.acquire(folder)
    try:
        yield
    finally:
        lock.release()


def _copied(spark: SparkSession, work: Migration, queues: int, progress: Progress) -> Sums:
    most = spark.sparkContext.defaultParallelism * _SHARES_PER_TASK
    shares = max(1, min(most, queues // _CLIENTS_PER_SHARE))
    numbers = spark.range(0, shares, 1, shares)
    frame = numbers.mapInArrow(partial(_copy_shares, work, shares), from_arrow_schema(_RESULT))
    tracker = spark.sparkContext.statusTracker()

    def look() -> None:
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        shares_done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
        progress(shares_done / shares, f"{shares_done} of {shares} shares of {queues:,} queues")

    try:
        rows = watched(spark, frame.collect, look)
    except PySparkException as error:
        raise translated(error, f"{work.source} → {work.target}") from error
    except Py4JError as error:
        raise TransientError("a task of Spark died, as its lines above say; the same command goes on") from error
    done = Sums()
    for row in rows:
        big = {name: int(row[name], 16) for name in _BIG}
        done.add(Sums(**row.asDict() | big | {"sessions": _read_sessions(bytes(row["sessions"]))}))
    return done


def make_sessions(done: Sums, base: int, sessions: SessionImport) -> int:
    """The sessions that queues of a TBMQ belong to; how many were not there. Requires: these queues are there."""
    for client_id, packets in done.sessions:
        sessions.make(client_id, base + 1, packets)
    return sessions.made


def _read_sessions(value: bytes) -> list[tuple[str, list[OwedPacket]]]:
    return [(client_id, [OwedPacket(*packet) for packet in packets]) for client_id, packets in json.loads(value)]


def _copy_shares(work: Migration, shares: int, batches: Iterator[Any]) -> Iterator[Any]:
    """For `mapInArrow`: each row is the number of a share."""
    for batch in batches:
        for share in batch.column(0).to_pylist():
            sums = asyncio.run(copy_share(work, share, shares))
            row = asdict(replace(sums, sessions=[])) | {name: f"{getattr(sums, name):x}" for name in _BIG}
            row["sessions"] = json.dumps(sums.sessions).encode()
            yield pa.RecordBatch.from_pylist([row], schema=_RESULT)
