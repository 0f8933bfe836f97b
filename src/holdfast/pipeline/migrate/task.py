"""Queues of one backend copied into another, a share of the clients at a time: the work of a task of Spark.

    clients ──▶ hash ──▶ share 0 of 4 ──▶ copied, compared ──▶ sums
                         share 1 of 4 ──▶ copied, compared ──▶ sums ──▶ added up by the driver

1. A task lists the clients itself and takes those whose hash says so: there is no list of all clients.
2. A queue is copied as `holdfast queue migrate` does it. The backend it comes from is not changed.
3. A queue that cannot be copied is reported with its reason; the others are copied.
4. Sums do not depend on the order, so that shares can be added up.

It must not know Spark: the dry run and the checks do without it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Final
from zlib import crc32

from holdfast.durable.queues.queue_store import QueueStore
from holdfast.model.clock import Clock
from holdfast.model.errors import HoldfastError, PermanentError
from holdfast.pipeline.spark.fault_points import fault
from holdfast.storage.queue_addresses import open_backend, open_tbmq, parse_tbmq, view_backend
from holdfast.storage.queue_copy import PAGE, BackendSource, copy_queue
from holdfast.storage.tbmq import OwedPacket, TbmqMessage, TbmqSource, choose_base, import_queues

#: Queues that a task copies at the same time: most of it is waiting for two servers.
_AT_ONCE: Final = 8
#: Reasons that a task returns; there may be as many as there are queues.
_REASONS: Final = 20
_MODULUS: Final = 1 << 128


@dataclass(frozen=True)
class MigrateJob:
    """Which queues are copied, from where to where."""

    source: str
    target: str
    clock: Clock
    #: Names of clients, with `*` and `?`.
    clients: str = "*"
    source_password: str | None = field(default=None, repr=False)
    target_password: str | None = field(default=None, repr=False)
    #: Of a TBMQ: the number that its serials are added to. 0 for a queue backend.
    base: int = 0
    #: … and clients whose sessions would not read their queues, each with the reason.
    obstacles: Mapping[str, str] = field(default_factory=dict)

    def wants(self, client_id: str) -> bool:
        return fnmatchcase(client_id, self.clients)


@dataclass
class MigrateSums:
    """Sums over the queues of a share."""

    queues: int = 0
    #: Of their clients: the same for the same ones.
    listed: int = 0
    copied: int = 0
    messages: int = 0
    #: Of everything that was copied: clients, places, messages.
    checksum: int = 0
    #: Of a TBMQ: messages whose time had come, and that were left out.
    expired: int = 0
    #: Queues that were not copied, and of a TBMQ messages that were not; and why, for the first of them.
    failed: int = 0
    reasons: list[str] = field(default_factory=list)
    #: Of a TBMQ: clients whose queues are there, and the packets that each is owed.
    sessions: list[tuple[str, list[OwedPacket]]] = field(default_factory=list)

    def found(self, client_id: str) -> None:
        self.queues += 1
        self.listed = (self.listed + _number(client_id)) % _MODULUS

    def copy(self, client_id: str, messages: int, checksum: str) -> None:
        self.copied += 1
        self.messages += messages
        self.checksum = (self.checksum + _number(f"{checksum} {messages} {client_id}")) % _MODULUS

    def fail(self, client_id: str, why: str) -> None:
        self.failed += 1
        if len(self.reasons) < _REASONS:
            self.reasons.append(f"{client_id!r}: {why}")

    def add(self, other: "MigrateSums") -> None:
        self.queues += other.queues
        self.listed = (self.listed + other.listed) % _MODULUS
        self.copied += other.copied
        self.messages += other.messages
        self.checksum = (self.checksum + other.checksum) % _MODULUS
        self.expired += other.expired
        self.failed += other.failed
        self.reasons += other.reasons[: max(0, _REASONS - len(self.reasons))]
        self.sessions += other.sessions


def task_of(client_id: str, shares: int) -> int:
    """The task that copies this client's queue. The same on every machine."""
    return crc32(_bytes(client_id)) % shares


async def list_clients(job: MigrateJob) -> MigrateSums:
    """How many there are, and which. The new backend is asked whether it is there, and made ready."""
    target = await open_backend(job.target, job.clock, job.target_password)
    try:
        await target.last("holdfast")
    finally:
        await target.close()
    sums = MigrateSums()
    async with _opened(job) as source:
        async for client_id in _clients(job, source):
            sums.found(client_id)
    return sums


async def tbmq_base(job: MigrateJob) -> int:
    """Of an import that begins now."""
    async with _opened(job) as source:
        assert isinstance(source, _Tbmq)
        return await choose_base(source, job.clock)


async def tbmq_obstacles(job: MigrateJob, obstacle: Callable[[str], str]) -> dict[str, str]:
    """Clients whose sessions would not read imported queues, and why."""
    async with _opened(job) as source:
        found = {client_id: obstacle(client_id) async for client_id in _clients(job, source)}
    return {client_id: why for client_id, why in found.items() if why}


async def preview_queues(job: MigrateJob) -> MigrateSums:
    """What would be copied: the new backend is not asked. A TBMQ does not say how many messages that would be."""
    sums = MigrateSums()
    async with _opened(job) as source:
        async for client_id in _clients(job, source):
            sums.found(client_id)
            if not isinstance(source, _Tbmq):
                sums.messages += (await source.size(client_id)).messages
    return sums


async def copy_share(job: MigrateJob, share: int, shares: int) -> MigrateSums:
    """TransientError: one of the backends does not answer. Done again, it goes on where it was."""
    target = await open_backend(job.target, job.clock, job.target_password)
    try:
        async with _opened(job) as source:
            if isinstance(source, _Tbmq):
                return await _import(job, source, target, share, shares)
            return await _copy(job, source, target, share, shares)
    finally:
        await target.close()


async def _copy(job: MigrateJob, source: QueueStore, target: QueueStore, share: int, shares: int) -> MigrateSums:
    sums = MigrateSums()

    async def copy(client_id: str) -> None:
        sums.found(client_id)
        try:
            done = await copy_queue(BackendSource(source), target, client_id, job.clock.wall_us, _told)
        except PermanentError as error:
            sums.fail(client_id, str(error))
        else:
            sums.copy(client_id, done.messages, done.checksum)

    async for page in _pages(job, source, share, shares):
        try:
            async with asyncio.TaskGroup() as copying:
                for client_id in page:
                    copying.create_task(copy(client_id))
        except* HoldfastError as errors:
            raise _first(errors) from None
    return sums


async def _pages(job: MigrateJob, source: QueueStore, share: int, shares: int) -> AsyncIterator[list[str]]:
    page: list[str] = []
    async for client_id in _clients(job, source):
        if task_of(client_id, shares) == share:
            page.append(client_id)
            if len(page) == _AT_ONCE:
                yield page
                page = []
    yield page


async def _import(job: MigrateJob, source: "_Tbmq", target: QueueStore, share: int, shares: int) -> MigrateSums:
    sums = MigrateSums()

    def wanted(client_id: str) -> bool:
        if not job.wants(client_id) or task_of(client_id, shares) != share:
            return False
        sums.found(client_id)
        return True

    sessions = _Sessions(job, sums)
    done = await import_queues(source.only(wanted), target, job.clock, job.base, sessions, lambda _report: None)
    sums.copied, sums.messages, sums.expired = done.clients, done.messages, done.expired
    for client_id, why in [*done.refused, *done.unreadable, *done.shortened]:
        sums.fail(client_id, why)
    for client_id, brought, held in done.miscounted:
        sums.fail(client_id, f"{brought} messages were brought, {held} are there")
    return sums


class _Sessions:
    """The sessions that a task returns to the driver, which makes them in the data folder."""

    def __init__(self, job: MigrateJob, sums: MigrateSums) -> None:
        self._job: Final = job
        self._sums: Final = sums

    def obstacle(self, client_id: str) -> str:
        return self._job.obstacles.get(client_id, "")

    def make(self, client_id: str, _begun: int, packets: list[OwedPacket]) -> None:
        self._sums.sessions.append((client_id, packets))


class _Tbmq:
    """The queues of a TBMQ, or some of them."""

    def __init__(self, source: TbmqSource, wanted: Callable[[str], bool] = lambda _client_id: True) -> None:
        self._source: Final = source
        self._wanted: Final = wanted

    def only(self, wanted: Callable[[str], bool]) -> "_Tbmq":
        return _Tbmq(self._source, wanted)

    async def clients(self) -> AsyncIterator[tuple[str, int]]:
        async for client_id, last in self._source.clients():
            if self._wanted(client_id):
                yield client_id, last

    async def messages(self, client_id: str, after: int, limit: int) -> list[TbmqMessage]:
        return await self._source.messages(client_id, after, limit)

    async def close(self) -> None:
        await self._source.close()


@asynccontextmanager
async def _opened(job: MigrateJob) -> AsyncIterator[QueueStore | _Tbmq]:
    tbmq = parse_tbmq(job.source)
    source: QueueStore | _Tbmq
    if tbmq is not None:
        source = _Tbmq(await open_tbmq(tbmq, job.clock, job.source_password))
    else:
        source = await view_backend(job.source, job.clock, job.source_password)
    try:
        yield source
    finally:
        await source.close()


async def _clients(job: MigrateJob, source: QueueStore | _Tbmq) -> AsyncIterator[str]:
    async for found in source.clients():
        client_id = found if isinstance(found, str) else found[0]
        if job.wants(client_id):
            yield client_id


def _first(errors: BaseExceptionGroup[HoldfastError]) -> HoldfastError:
    """One of them says enough: servers are away for all at once."""
    error = errors.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error


def _told(copied: int) -> None:
    if copied > PAGE:
        fault("migrate-halfway")


def _number(text: str) -> int:
    return int.from_bytes(sha256(_bytes(text)).digest()[:16])


def _bytes(text: str) -> bytes:
    """Also of what is no UTF-8: a foreign Redis may have such keys."""
    return text.encode("utf-8", "surrogatepass")
