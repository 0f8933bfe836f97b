"""Leases and erasures in a cluster: a job writes a file beside one node, and all nodes have it.

    job ──▶ file of node 1 ──▶ item in the control log ──▶ row on every node ──▶ the same file there
                              (`durable/state_machine/job_records.py`)

1. A file is how a job and a node talk; the row is what counts. Once a second they are compared, and the later word
   wins: a file that says more is proposed, a row that says more is written to the file. So nothing can be missed.
2. A lease whose file this process has seen, and that is gone, was removed: by hand, or because retention breaks it. The
   removal is a row, too.
3. Erasures hide messages from the readers of this node as soon as its file has them. Nothing stored changes.
4. Files are read and written by a thread, because they are synced.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from holdfast.durable.erasures import Erasure, Erasures
from holdfast.durable.state_machine.job_records import MAX_ITEM_BYTES, all_erasures, all_leases, last_job
from holdfast.durable.state_machine.tables import StateTables
from holdfast.model.clock import Clock
from holdfast.model.errors import PermanentError, TransientError
from holdfast.records.cluster.job_records import ErasureItem, LeaseItem, encode_erasure, encode_lease
from holdfast.storage.rocks.log.erasure_file import ErasureFile, erase
from holdfast.storage.rocks.log.leases import FOLDER_NAME, Lease, read_leases, remove_lease, renew_lease

_log = structlog.get_logger()

_SECOND_S: Final = 1.0
_COARSE_NS: Final = 2_000_000_000

JobItem = LeaseItem | ErasureItem


class JobFiles(NamedTuple):
    """What the files of a data folder say."""

    leases: dict[str, Lease]
    erasures: Erasures


class _Differences(NamedTuple):
    """What rows and files do not have in common."""

    proposals: list[JobItem]
    #: What the files lack. A lease that was removed is one without places.
    missing: list[JobItem]


class ClusterJobs:
    """Requires: the event loop. `run` goes on until it is cancelled."""

    def __init__(
        self,
        folder: Path,
        tables: StateTables,
        propose: Callable[[Iterable[JobItem]], None],
        hide: Callable[[Erasures], None],
        told: Callable[[Erasure], None],
        clock: Clock,
    ) -> None:
        """`tables` are those of the control log. `hide` is given all erasures, `told` each that is new.

        Ensures: what was erased up to now is hidden. PermanentError: that cannot be read.
        """
        self._folder: Final = folder
        self._tables: Final = tables
        self._propose: Final = propose
        self._hide: Final = hide
        self._told: Final = told
        self._clock: Final = clock
        self._erasure_file: Final = ErasureFile(folder)
        self._hidden = self._erasure_file.current()
        hide(self._hidden)
        #: Names of leases whose files this process has seen, or written.
        self._seen: Final[set[str]] = set()
        #: The files as they were read last, and when the folder of leases had changed then.
        self._files = JobFiles({}, self._hidden)
        self._changed_ns = -1
        #: Files and rows that were found alike.
        self._settled: tuple[JobFiles, int] | None = None
        self._complaints: Final[set[str]] = set()

    async def run(self, wait: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        while True:
            await self.look()
            await wait(_SECOND_S)

    async def look(self) -> None:
        """Compare files and rows once, and bring together what differs."""
        try:
            files = await asyncio.to_thread(self._read)
            self._show(files.erasures)
            place = (files, last_job(self._tables))
            if self._settled is not None and place[0] is self._settled[0] and place[1] == self._settled[1]:
                return
            found = self._compare(files)
            self._propose(found.proposals)
            if found.missing:
                await asyncio.to_thread(self._write, found.missing)
            elif not found.proposals:
                self._settled = place
        except (PermanentError, TransientError) as error:
            self._complain("leases and erasures of jobs cannot be read or written, and wait", str(error))

    def _complain(self, what: str, why: str) -> None:
        """Once for each reason."""
        if why not in self._complaints:
            self._complaints.add(why)
            _log.error(what, why=why)

    # ---- comparing

    def _compare(self, files: JobFiles) -> _Differences:
        found = _Differences([], [])
        rows = all_leases(self._tables)
        for name in sorted(files.leases.keys() | rows.keys()):
            self._compare_lease(found, files.leases.get(name), rows.get(name))
        erased = {_about(item): dict(item.up_to) for item in all_erasures(self._tables)}
        kept = {_about(item): dict(item.up_to) for item in map(_erasure_item, files.erasures.all)}
        found.proposals.extend(
            [
                item
                for item in map(_erasure_item, files.erasures.all)
                if _covers_more(dict(item.up_to), erased.get(_about(item))) and self._fits(item)
            ]
        )
        found.missing.extend(
            [item for item in all_erasures(self._tables) if _covers_more(dict(item.up_to), kept.get(_about(item)))]
        )
        return found

    def _compare_lease(self, found: _Differences, lease: Lease | None, row: LeaseItem | None) -> None:
        if lease is not None:
            self._seen.add(lease.name)
            item = _lease_item(lease)
            if (row is None or item.renewed_us > row.renewed_us) and self._fits(item):
                found.proposals.append(item)
        if row is None or (lease is not None and lease.renewed_us > row.renewed_us):
            return
        if lease is None and row.name in self._seen and not row.is_removed:
            gone_us = max(self._clock.wall_us(), row.renewed_us + 1)
            found.proposals.append(LeaseItem(row.name, gone_us, ()))
        elif row.is_removed != (lease is None) or (lease is not None and lease.renewed_us < row.renewed_us):
            found.missing.append(row)

    def _fits(self, item: JobItem) -> bool:
        size_bytes = len(encode_lease(item) if isinstance(item, LeaseItem) else encode_erasure(item))
        if size_bytes > MAX_ITEM_BYTES:
            why = f"{_describe(item)} has {size_bytes} bytes, and a cluster takes {MAX_ITEM_BYTES}"
            self._complain("a lease or an erasure holds on this node alone", why)
        return size_bytes <= MAX_ITEM_BYTES

    # ---- the node

    def _show(self, erasures: Erasures) -> None:
        """Hide what is erased, if that is new."""
        if erasures is self._hidden:
            return
        before = {(erasure.what, erasure.made_us) for erasure in self._hidden.all}
        self._hidden = erasures
        self._hide(erasures)
        for erasure in erasures.all:
            if (erasure.what, erasure.made_us) not in before:
                _log.info("messages are erased", what=erasure.what, by=erasure.made_by)
                self._told(erasure)

    # ---- files, in a thread

    def _read(self) -> JobFiles:
        """The same object as long as nothing has changed."""
        erasures = self._erasure_file.current()
        leases, changed_ns = self._files.leases, self._lease_folder_changed_ns()
        # The clock of a file system is coarse: what has just changed may change again at the same time.
        if changed_ns != self._changed_ns or time.time_ns() - changed_ns < _COARSE_NS:
            leases = {lease.name: lease for lease in read_leases(self._folder)}
            self._changed_ns = changed_ns
        if leases != self._files.leases or erasures is not self._files.erasures:
            self._files = JobFiles(leases, erasures)
        return self._files

    def _lease_folder_changed_ns(self) -> int:
        """A file is replaced as a whole, which changes its folder."""
        try:
            return os.stat(self._folder / FOLDER_NAME).st_mtime_ns
        except FileNotFoundError:
            return 0

    def _write(self, missing: list[JobItem]) -> None:
        for item in missing:
            if isinstance(item, ErasureItem):
                erase(
                    self._folder,
                    client=item.client,
                    topic=item.topic.decode(),
                    up_to=dict(item.up_to),
                    now_us=item.made_us,
                    made_by=item.made_by,
                )
            elif item.is_removed:
                self._seen.discard(item.name)
                remove_lease(self._folder, item.name)
            else:
                renew_lease(self._folder, item.name, dict(item.positions), item.renewed_us)
                self._seen.add(item.name)


def _lease_item(lease: Lease) -> LeaseItem:
    return LeaseItem(lease.name, lease.renewed_us, tuple(sorted(lease.positions.items())))


def _erasure_item(erasure: Erasure) -> ErasureItem:
    up_to = tuple(sorted(erasure.up_to.items()))
    return ErasureItem(erasure.client, b"/".join(erasure.levels), up_to, erasure.made_us, erasure.made_by)


def _about(item: ErasureItem) -> tuple[str, bytes]:
    return item.client, item.topic


def _covers_more(up_to: dict[int, int], known: dict[int, int] | None) -> bool:
    """Whether places cover something that the known ones do not."""
    return known is None or any(known.get(shard, -1) < position_us for shard, position_us in up_to.items())


def _describe(item: JobItem) -> str:
    if isinstance(item, LeaseItem):
        return f"lease {item.name!r}"
    return f"the erasure of client {item.client!r}" if item.client else f"the erasure of {item.topic[:80]!r}"
