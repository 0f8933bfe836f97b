"""Client queues at scale: from one backend to another, by all tasks of Spark at once.

1. Clients are listed when it begins, and added up by those who copy them. If these are not the same, a broker has used
   the queues meanwhile, and it is an error.
2. A journal is read by many and written by one: it is locked while it is read, and no backend to copy into.
3. A run that is killed and repeated leaves the new backend as one run would.
4. Sessions look in the new backend when every queue is there, and not before.
"""

import asyncio
import json
from collections.abc import Iterator
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
from holdfast.pipeline.migrate.task import MigrateJob, MigrateSums, copy_share, list_clients
from holdfast.pipeline.spark.errors import translate_error
from holdfast.pipeline.spark.progress import JobProgress, TaskCounter
from holdfast.pipeline.spark.session import session
from holdfast.pipeline.spark.watched_work import run_watched
from holdfast.storage.folder_lock import FolderLock
from holdfast.storage.queue_addresses import open_backend, parse_backend, parse_tbmq
from holdfast.storage.rocks.sessions.session_backends import change_queue_backends
from holdfast.storage.rocks.sessions.session_import import SessionImport
from holdfast.storage.tbmq import OwedPacket

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


def run_migrate(job: MigrateJob, master: str | None, progress: JobProgress) -> MigrateSums:
    """Copy every queue. Spark is started if there is anything to do."""
    with _held(job):
        progress.say("listing clients")
        listed = asyncio.run(list_clients(job))
        if not listed.queues:
            return listed
        spark = session("holdfast-migrate", master=master, say=progress.say)
        progress.watch(spark)
        done = _copy_all(spark, job, listed.queues, progress)
    if (done.queues, done.listed) != (listed.queues, listed.listed):
        raise PermanentError(
            f"{listed.queues:,} queues were listed, and {done.queues:,} were there when they were copied: "
            f"a broker uses them; stop it, and give the same command again"
        )
    return done


def change_sessions(data: Path, job: MigrateJob) -> int:
    """Sessions look in the new backend from now on; how many that were. Requires: every queue is there.

    Also those that have no queue in the old backend: they have none in the new one, either.
    """
    return change_queue_backends(
        data, _ClientFilter(job), parse_backend(job.source).kind, parse_backend(job.target).kind
    )


class _ClientFilter:
    """Queues by their names, without a list of them."""

    def __init__(self, job: MigrateJob) -> None:
        self._job: Final = job

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._job.wants(name)


@contextmanager
def _held(job: MigrateJob) -> Iterator[None]:
    """Recover a journal that a killed broker left, and lock it. SettingsError: a broker uses it."""
    folder = None if parse_tbmq(job.source) else parse_backend(job.source).folder
    if folder is None:
        yield
        return

    async def recover() -> None:
        await (await open_backend(job.source, job.clock)).close()

    asyncio.run(recover())
    lock = FolderLock.acquire(folder)
    try:
        yield
    finally:
        lock.release()


def _copy_all(spark: SparkSession, job: MigrateJob, queues: int, progress: JobProgress) -> MigrateSums:
    most = spark.sparkContext.defaultParallelism * _SHARES_PER_TASK
    shares = max(1, min(most, queues // _CLIENTS_PER_SHARE))
    numbers = spark.range(0, shares, 1, shares)
    progress(0.0, f"copying {queues:,} queues", until=1.0)
    work = partial(_copy_shares, job, shares, progress.counter(spark))
    frame = numbers.mapInArrow(work, from_arrow_schema(_RESULT))
    try:
        rows = run_watched(spark, frame.collect)
    except PySparkException as error:
        raise translate_error(error, f"{job.source} → {job.target}") from error
    except Py4JError as error:
        raise TransientError("a task of Spark died, as its lines above say; the same command goes on") from error
    done = MigrateSums()
    for row in rows:
        big = {name: int(row[name], 16) for name in _BIG}
        done.add(MigrateSums(**row.asDict() | big | {"sessions": _read_sessions(bytes(row["sessions"]))}))
    return done


def make_sessions(done: MigrateSums, base: int, sessions: SessionImport) -> int:
    """The sessions that queues of a TBMQ belong to; how many were not there. Requires: these queues are there."""
    for client_id, packets in done.sessions:
        sessions.make(client_id, base + 1, packets)
    return sessions.made


def _read_sessions(value: bytes) -> list[tuple[str, list[OwedPacket]]]:
    return [(client_id, [OwedPacket(*packet) for packet in packets]) for client_id, packets in json.loads(value)]


def _copy_shares(job: MigrateJob, shares: int, counter: TaskCounter, batches: Iterator[Any]) -> Iterator[Any]:
    """For `mapInArrow`: each row is the number of a share."""
    for batch in batches:
        for share in batch.column(0).to_pylist():
            sums = asyncio.run(copy_share(job, share, shares))
            counter.add(sums.messages)
            row = asdict(replace(sums, sessions=[])) | {name: f"{getattr(sums, name):x}" for name in _BIG}
            row["sessions"] = json.dumps(sums.sessions).encode()
            yield pa.RecordBatch.from_pylist([row], schema=_RESULT)
