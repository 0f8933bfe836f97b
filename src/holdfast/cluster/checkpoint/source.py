"""The checkpoint that this node serves to another one: made when it is asked for, read in pieces, removed afterwards.

    open ──▶ a thread makes the checkpoint and its checksums ──▶ manifest ──▶ pieces … ──▶ close, or a minute of silence
               meanwhile: preparing, ask again

1. There is one checkpoint at a time. Whoever asks meanwhile gets the same one, unless the logs begin behind it by now.
2. A request reads `MAX_PIECE_BYTES` at most, in a thread: the loop of this node goes on with its clients.
3. While it is served, and a minute longer, its sequences are announced to all nodes, and hold the logs
   (`vnodes/trim_rules`): a node that was installed has to find there what follows its checkpoint.
4. A node that has not caught up, or is stopped in a vnode, serves none.
"""

import asyncio
import hashlib
import os
import secrets
import shutil
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final
from zlib import crc32

import structlog

from holdfast.cluster import failpoints
from holdfast.files.private import make_private_folder
from holdfast.model.clock import Clock
from holdfast.model.errors import PermanentError, TransientError
from holdfast.model.time import SECOND_US
from holdfast.records.cluster.checkpoint import (
    CHECKPOINT_BYTES,
    CheckpointClosed,
    CheckpointFile,
    CheckpointMessage,
    CheckpointRefused,
    CloseCheckpoint,
    Hold,
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

#: The most that is read and sent at once.
MAX_PIECE_BYTES: Final = 1 << 20
#: How long a checkpoint that no node reads is kept, and how long the logs are held for the node that has read it.
IDLE_S: Final = 60.0
_SECOND_S: Final = 1.0


class _Served:
    """A checkpoint of this node."""

    def __init__(self, checkpoint: bytes, folder: Path, sequences: tuple[int, ...], now_us: int) -> None:
        self.checkpoint: Final = checkpoint
        self.folder: Final = folder
        self.sequences: Final = sequences
        self.used_us = now_us
        self.done_bytes = 0
        self.total_bytes = 0
        #: None while it is made.
        self.manifest: Manifest | None = None
        self.sent_bytes = 0
        #: Whether its files are gone; its sequences hold the logs a while longer.
        self.is_closed = False


class CheckpointSource:
    """Answers the requests of nodes that are installed. Requires: the event loop; `run` until it is cancelled."""

    def __init__(
        self,
        cluster_id: bytes,
        node: int,
        folder: Path,
        make: Callable[[Path], None],
        sequences: Callable[[], Sequence[int] | None],
        announce: Callable[[bytes], Awaitable[None]],
        clock: Clock,
        wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`folder` is for checkpoints alone. `make` makes one in a folder, in a thread.

        `sequences` gives what this node has applied in each vnode, or None if it has not caught up. `announce` tells
        all nodes; TransientError: it could not.
        """
        self._cluster_id: Final = cluster_id
        self._node: Final = node
        self._folder: Final = folder
        self._make: Final = make
        self._sequences: Final = sequences
        self._announce: Final = announce
        self._clock: Final = clock
        self._wait: Final = wait
        self._served: _Served | None = None
        #: Checkpoints that begin before the logs, to be removed.
        self._replaced: Final[list[_Served]] = []
        self._begun: Final = asyncio.Event()

    # ---- requests

    async def answer(self, request: bytes) -> bytes:
        """The answer to a request of another node; a request that is none is refused with the reason."""
        try:
            message = decode_checkpoint_message(request)
            if message.cluster_id != self._cluster_id:
                raise PermanentError(
                    f"node {message.node} asks for cluster {message.cluster_id.hex()}, and this is a node of "
                    f"{self._cluster_id.hex()}"
                )
            said = await self._answer(message)
        except (PermanentError, TransientError) as error:
            said = CheckpointRefused(str(error)[:1000])
        return self._encode(said)

    async def _answer(self, message: CheckpointMessage) -> Said:
        said = message.said
        if isinstance(said, OpenCheckpoint):
            return self._open(message.node, said)
        if isinstance(said, ReadPiece):
            return await self._read(said)
        if isinstance(said, CloseCheckpoint):
            await self._close(said.checkpoint)
            return CheckpointClosed()
        raise PermanentError(f"{type(said).__name__} is no request; right would be open, read or close")

    def _open(self, node: int, wanted: OpenCheckpoint) -> Said:
        sequences = self._sequences()
        if sequences is None:
            raise PermanentError(f"node {self._node} has not caught up itself")
        if len(wanted.least) != len(sequences):
            raise PermanentError(f"node {node} knows {len(wanted.least)} vnodes, and there are {len(sequences)}")
        served = self._served
        if served is not None and not served.is_closed and _is_of_use(served, wanted):
            self._touch(served)
            return served.manifest or Preparing(served.done_bytes, served.total_bytes)
        if served is not None:
            self._replaced.append(served)
        _log.info("checkpoint is made", for_node=node, sequences=list(sequences))
        checkpoint = secrets.token_bytes(CHECKPOINT_BYTES)
        folder = self._folder / checkpoint.hex()
        self._served = _Served(checkpoint, folder, tuple(sequences), self._clock.monotonic_us())
        self._begun.set()
        return Preparing(0, 0)

    async def _read(self, wanted: ReadPiece) -> Said:
        served = self._find(wanted.checkpoint)
        assert served.manifest is not None
        files = served.manifest.files
        if wanted.file >= len(files) or not 0 < wanted.size_bytes <= MAX_PIECE_BYTES:
            raise PermanentError(
                f"{wanted.size_bytes} bytes of file {wanted.file} are asked for; right would be 1 to {MAX_PIECE_BYTES} "
                f"bytes of one of {len(files)} files"
            )
        if served.sent_bytes == 0:
            failpoints.reach("install.sending")
        self._touch(served)
        path = served.folder / files[wanted.file].name
        try:
            piece = await asyncio.to_thread(_read_piece, path, wanted.offset, wanted.size_bytes)
        except OSError as error:
            raise PermanentError(f"{path.name} cannot be read: {error}") from error
        served.sent_bytes += len(piece.content)
        return piece

    async def _close(self, checkpoint: bytes) -> None:
        served = self._served
        if served is not None and served.checkpoint == checkpoint and not served.is_closed:
            self._touch(served)
            await self._remove(served)

    def _find(self, checkpoint: bytes) -> _Served:
        served = self._served
        if served is None or served.is_closed or served.checkpoint != checkpoint or served.manifest is None:
            raise PermanentError(f"node {self._node} has no checkpoint {checkpoint.hex()} any more")
        return served

    def _touch(self, served: _Served) -> None:
        served.used_us = self._clock.monotonic_us()

    def _encode(self, said: Said) -> bytes:
        return encode_checkpoint_message(CheckpointMessage(self._cluster_id, self._node, said))

    # ---- its life

    async def run(self) -> None:
        """Make checkpoints that were asked for, hold the logs for them, and remove them."""
        while True:
            while self._replaced:
                await self._remove(self._replaced.pop())
            served = self._served
            if served is None:
                await self._begun.wait()
                self._begun.clear()
                continue
            if served.manifest is None and not served.is_closed:
                # The announcements before it is made: the log must not be trimmed meanwhile.
                await self._tell(served)
                await self._prepare(served)
            elif self._clock.monotonic_us() - served.used_us > IDLE_S * SECOND_US:
                await self._remove(served)
                if self._served is served:
                    self._served = None
            else:
                await self._tell(served)
                await self._wait(_SECOND_S)

    async def _prepare(self, served: _Served) -> None:
        async with asyncio.TaskGroup() as tasks:
            telling = tasks.create_task(self._keep_telling(served))
            try:
                served.manifest = await self._build_in_thread(served)
            except Exception as error:
                # The next request begins another one.
                _log.error("checkpoint cannot be made", why=str(error))
                await self._remove(served)
            else:
                self._touch(served)
                size_bytes = served.manifest.size_bytes
                _log.info("checkpoint is served", files=len(served.manifest.files), size_bytes=size_bytes)
            finally:
                telling.cancel()

    async def _build_in_thread(self, served: _Served) -> Manifest:
        """Ensures: the thread has ended, also if this is cancelled: the database is closed after it."""
        building = asyncio.ensure_future(asyncio.to_thread(self._build, served))
        try:
            return await asyncio.shield(building)
        except asyncio.CancelledError:
            served.is_closed = True
            await asyncio.wait([building])
            raise

    async def _keep_telling(self, served: _Served) -> None:
        while True:
            await self._wait(_SECOND_S)
            await self._tell(served)

    async def _tell(self, served: _Served) -> None:
        try:
            await self._announce(self._encode(Hold(served.sequences)))
        except TransientError as error:
            _log.debug("a hold of the logs is not announced", why=str(error))

    def _build(self, served: _Served) -> Manifest:
        """In a thread."""
        make_private_folder(self._folder)
        self._make(served.folder)
        paths = sorted(served.folder.iterdir())
        sizes = [path.stat().st_size for path in paths]
        served.total_bytes = sum(sizes)
        files: list[CheckpointFile] = []
        for path, size_bytes in zip(paths, sizes, strict=True):
            if served.is_closed:
                raise TransientError("the checkpoint is not needed any more")
            with path.open("rb") as file:
                files.append(CheckpointFile(path.name, size_bytes, hashlib.file_digest(file, "sha256").digest()))
            served.done_bytes += size_bytes
        return Manifest(served.checkpoint, served.sequences, tuple(files))

    async def _remove(self, served: _Served) -> None:
        if not served.is_closed:
            served.is_closed = True
            await asyncio.to_thread(shutil.rmtree, served.folder, ignore_errors=True)
            _log.info("checkpoint is removed", sent_bytes=served.sent_bytes)


def _is_of_use(served: _Served, wanted: OpenCheckpoint) -> bool:
    return all(here >= least for here, least in zip(served.sequences, wanted.least, strict=True))


def _read_piece(path: Path, offset: int, size_bytes: int) -> Piece:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = os.pread(descriptor, size_bytes, offset)
    finally:
        os.close(descriptor)
    return Piece(crc32(content), content)
