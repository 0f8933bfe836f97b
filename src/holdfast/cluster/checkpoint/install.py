"""The node that is installed: fetches the checkpoint of another one in pieces, and keeps what it has over a kill.

    live members ──▶ open ──▶ manifest ──▶ pieces, several on their way, stored in order ──▶ all files, synced
         ▲                                        │
         └── another one: no answer, refused, a broken piece ◀──┘

    <data folder>/install/
      manifest    of the checkpoint that is fetched, and which node has it   (`records/cluster/checkpoint`)
      rocks/      its files, each as far as it has come

1. Each piece has a checksum, each file another one. A piece that is broken is asked for again; a file that is broken is
   fetched again.
2. Started again, it asks the same node first. If that still has the checkpoint, it goes on behind the last byte of each
   file; a file that was complete is read once and compared. Else it begins again.
3. Nothing outside `install/` is written. What becomes of the files is decided by `storage/rocks/checkpoint`.
"""

import asyncio
import hashlib
import os
import shutil
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

import structlog

from holdfast.cluster import failpoints
from holdfast.cluster.checkpoint.source import MAX_PIECE_BYTES
from holdfast.cluster.node_cluster import single_error
from holdfast.files.private import FOLDER_MODE, make_private_folder
from holdfast.files.replacement import replace_file, sync_path
from holdfast.model.clock import Clock
from holdfast.model.errors import PermanentError, TransientError
from holdfast.model.time import SECOND_US
from holdfast.records.cluster.checkpoint import (
    CheckpointFile,
    CheckpointMessage,
    CheckpointRefused,
    CloseCheckpoint,
    Manifest,
    OpenCheckpoint,
    Piece,
    Preparing,
    ReadPiece,
    Said,
    decode_checkpoint_message,
    encode_checkpoint_message,
)

_log = structlog.get_logger()

MANIFEST_NAME: Final = "manifest"
FILES_NAME: Final = "rocks"
#: Pieces on their way at once.
_WINDOW: Final = 4
#: How often a piece is asked for before its node is given up, and the seconds between two requests.
_ATTEMPTS: Final = 5
_RETRY_S: Final = 1.0
#: The longest pause before all members are asked again.
_LONGEST_PAUSE_S: Final = 10.0
#: Seconds that a node may take to make a checkpoint without any progress.
_PREPARING_S: Final = 120.0
#: Seconds between two lines about the progress.
_PROGRESS_S: Final = 5
#: Free bytes that are left alone: RocksDB writes while it opens.
_ROOM_BYTES: Final = 256 << 20

#: Asks a node; the answer. TransientError: there is none.
Ask = Callable[[int, bytes], Awaitable[bytes]]


class ClusterView(NamedTuple):
    """What an installation has to know of the cluster at the moment."""

    #: Live members that have caught up, the furthest first.
    sources: list[int]
    #: By vnode: the least sequence from which the log leads on.
    least: tuple[int, ...]


class CheckpointInstaller:
    """One installation. `run` until everything is staged."""

    def __init__(
        self,
        cluster_id: bytes,
        node: int,
        staging: Path,
        ask: Ask,
        look: Callable[[], Awaitable[ClusterView]],
        clock: Clock,
        wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
        piece_bytes: int = MAX_PIECE_BYTES,
    ) -> None:
        """`staging` is the folder `install/`, which may hold what an earlier run has left."""
        self._cluster_id: Final = cluster_id
        self._node: Final = node
        self._staging: Final = staging
        self._files: Final = staging / FILES_NAME
        self._ask: Final = ask
        self._look: Final = look
        self._clock: Final = clock
        self._wait: Final = wait
        self._piece_bytes: Final = piece_bytes
        self._done_bytes = 0
        self._said_us = 0

    async def run(self) -> Manifest:
        """Try one member after the other, for as long as it takes. Ensures: all files are here, whole and synced."""
        failpoints.reach("install.begun")
        last, pause_s = "", _RETRY_S
        while True:
            try:
                view = await self._look()
                why = "" if view.sources else "no other member lives and has caught up"
            except TransientError as error:
                view, why = ClusterView([], ()), str(error)
            kept = self._kept_source()
            for source in sorted(view.sources, key=lambda node: node != kept):
                try:
                    return await self._install_from(source, view.least)
                except (TransientError, PermanentError, OSError) as error:
                    why = str(error)
                    _log.warning("node cannot be installed from another one", source=source, why=why)
            if why != last:
                last = why
                _log.warning("node waits to be installed", why=why)
            await self._wait(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _install_from(self, source: int, least: tuple[int, ...]) -> Manifest:
        manifest = await self._open(source, least)
        self._stage(source, manifest)
        with single_error():
            await self._fetch(source, manifest)
        sync_path(self._files)
        sync_path(self._staging)
        failpoints.reach("install.copied")
        _log.info("checkpoint is complete", source=source, size_bytes=manifest.size_bytes)
        try:
            await self._say(source, CloseCheckpoint(manifest.checkpoint))
        except (TransientError, PermanentError) as error:
            _log.debug("a checkpoint is not closed", why=str(error))
        return manifest

    # ---- requests

    async def _open(self, source: int, least: tuple[int, ...]) -> Manifest:
        """The manifest, when the checkpoint is made."""
        done_bytes, idle = -1, 0
        while True:
            said = await self._say(source, OpenCheckpoint(least))
            if isinstance(said, Manifest):
                break
            if not isinstance(said, Preparing):
                raise PermanentError(f"node {source} answers with {type(said).__name__}, not with a manifest")
            if said.done_bytes != done_bytes:
                done_bytes, idle = said.done_bytes, 0
                _log.info("checkpoint is made", source=source, done_bytes=said.done_bytes, of_bytes=said.total_bytes)
            idle += 1
            if idle > _PREPARING_S / _RETRY_S:
                raise TransientError(f"node {source} has made nothing of a checkpoint for {_PREPARING_S:g} s")
            await self._wait(_RETRY_S)
        if len(said.sequences) != len(least) or any(
            here < there for here, there in zip(said.sequences, least, strict=True)
        ):
            raise PermanentError(
                f"the checkpoint of node {source} has the sequences {said.sequences}, and the logs begin behind {least}"
            )
        return said

    async def _piece(self, source: int, request: ReadPiece) -> bytes:
        """Some bytes of a file, as many as are asked for."""
        why = ""
        for attempt in range(_ATTEMPTS):
            if attempt:
                await self._wait(_RETRY_S)
            try:
                said = await self._say(source, request)
            except TransientError as error:
                why = str(error)
                continue
            if not isinstance(said, Piece):
                raise PermanentError(f"node {source} answers with {type(said).__name__}, not with a piece")
            if len(said.content) == request.size_bytes and crc32(said.content) == said.checksum:
                return said.content
            why = f"{len(said.content)} bytes with another checksum came in place of {request.size_bytes}"
            _log.warning("a piece of a checkpoint is broken", source=source, file=request.file, at=request.offset)
        raise TransientError(f"node {source} does not give file {request.file} at {request.offset}: {why}")

    async def _say(self, source: int, said: Said) -> Said:
        """TransientError: no answer. PermanentError: refused, of another cluster, or of another version."""
        request = encode_checkpoint_message(CheckpointMessage(self._cluster_id, self._node, said))
        answer = decode_checkpoint_message(await self._ask(source, request))
        if answer.cluster_id != self._cluster_id:
            raise PermanentError(
                f"node {source} is of cluster {answer.cluster_id.hex()}, and this one of {self._cluster_id.hex()}"
            )
        if isinstance(answer.said, CheckpointRefused):
            raise PermanentError(f"node {source} refuses: {answer.said.why}")
        return answer.said

    # ---- files

    def _kept_source(self) -> int:
        """The node of which something is staged; 0 for none."""
        kept = self._kept()
        return 0 if kept is None else kept.node

    def _kept(self) -> CheckpointMessage | None:
        try:
            kept = decode_checkpoint_message((self._staging / MANIFEST_NAME).read_bytes())
        except (OSError, PermanentError):
            return None
        return kept if isinstance(kept.said, Manifest) and kept.cluster_id == self._cluster_id else None

    def _stage(self, source: int, manifest: Manifest) -> None:
        """Make the folder for a checkpoint, and keep what is there of it."""
        message = CheckpointMessage(self._cluster_id, source, manifest)
        if self._kept() != message:
            shutil.rmtree(self._staging, ignore_errors=True)
            make_private_folder(self._staging)
            free_bytes = shutil.disk_usage(self._staging).free
            if free_bytes < manifest.size_bytes + _ROOM_BYTES:
                raise TransientError(
                    f"{free_bytes} bytes are free in {self._staging}; the checkpoint of node {source} needs "
                    f"{manifest.size_bytes + _ROOM_BYTES}"
                )
            self._files.mkdir(FOLDER_MODE)
            # Last: without it nothing of the folder counts.
            replace_file(self._staging / MANIFEST_NAME, encode_checkpoint_message(message))
        self._done_bytes = 0
        self._said_us = self._clock.monotonic_us()
        _log.info("checkpoint is fetched", source=source, files=len(manifest.files), of_bytes=manifest.size_bytes)

    async def _fetch(self, source: int, manifest: Manifest) -> None:
        """Fetch what is missing of all files."""
        missing: list[tuple[int, _StagedFile]] = []
        for index, file in enumerate(manifest.files):
            staged = await asyncio.to_thread(_StagedFile.open, self._files / file.name, file)
            self._done_bytes += staged.size_bytes
            if not staged.is_complete:
                missing.append((index, staged))
        async with asyncio.TaskGroup() as tasks:
            waiting: deque[tuple[_StagedFile, asyncio.Task[bytes]]] = deque()
            for staged, request in _requests(manifest.checkpoint, missing, self._piece_bytes):
                waiting.append((staged, tasks.create_task(self._piece(source, request))))
                if len(waiting) >= _WINDOW:
                    await self._store(*waiting.popleft(), manifest)
            while waiting:
                await self._store(*waiting.popleft(), manifest)

    async def _store(self, staged: "_StagedFile", piece: asyncio.Task[bytes], manifest: Manifest) -> None:
        content = await piece
        staged.append(content)
        self._done_bytes += len(content)
        failpoints.reach("install.piece")
        if staged.size_bytes == staged.file.size_bytes:
            await asyncio.to_thread(staged.complete)
        now_us = self._clock.monotonic_us()
        if now_us - self._said_us >= _PROGRESS_S * SECOND_US:
            self._said_us = now_us
            _log.info("checkpoint is fetched", done_bytes=self._done_bytes, of_bytes=manifest.size_bytes)


def _requests(
    checkpoint: bytes, files: list[tuple[int, "_StagedFile"]], piece_bytes: int
) -> Iterator[tuple["_StagedFile", ReadPiece]]:
    for index, staged in files:
        for offset in range(staged.size_bytes, staged.file.size_bytes, piece_bytes):
            size_bytes = min(piece_bytes, staged.file.size_bytes - offset)
            yield staged, ReadPiece(checkpoint, index, offset, size_bytes)


class _StagedFile:
    """A file of a checkpoint, as far as it has come."""

    def __init__(self, path: Path, file: CheckpointFile) -> None:
        self.path: Final = path
        self.file: Final = file
        self.size_bytes = 0
        self.is_complete = False
        self._hash = hashlib.sha256()

    @classmethod
    def open(cls, path: Path, file: CheckpointFile) -> "_StagedFile":
        """What is there of a file, read once. One that is complete and broken begins again."""
        staged = cls(path, file)
        if path.exists():
            staged._read()
        if staged.size_bytes == file.size_bytes:
            try:
                staged.complete()
            except TransientError:
                return cls(path, file)
        return staged

    def _read(self) -> None:
        with self.path.open("rb") as kept:
            while content := kept.read(MAX_PIECE_BYTES):
                self._hash.update(content)
                self.size_bytes += len(content)
        if self.size_bytes > self.file.size_bytes:
            self._forget()

    def append(self, content: bytes) -> None:
        with self.path.open("ab") as kept:
            kept.write(content)
        self._hash.update(content)
        self.size_bytes += len(content)

    def complete(self) -> None:
        """Ensures: the file is whole and on disk. TransientError: it is broken, and was removed."""
        if self._hash.digest() != self.file.sha256:
            self._forget()
            raise TransientError(f"{self.file.name} has another checksum than in its manifest, and is fetched again")
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self.is_complete = True

    def _forget(self) -> None:
        self.path.unlink(missing_ok=True)
        self.size_bytes = 0
        self._hash = hashlib.sha256()
