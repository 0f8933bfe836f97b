"""The state file of a client: what was begun and not completed survives a kill of the process.

    magic "HFCLIENT" │ version u8
    batch: length u32 │ CRC-32 u32 │ records        one write; read whole or not at all; little-endian
    batch …

The records, and which of them have to be durable before what, are in `state`. Rules:

1. Batches are appended. One that is torn, and everything behind it, was never acted on: reading cuts it off.
2. The file is replaced by a snapshot when it has grown beyond four snapshots, and beyond a megabyte. So it is bounded
   by what is outgoing.
3. One process at a time has the file, by a lock on `NAME.lock`.
4. When a write or a sync fails, the content of the file is unknown: nothing is written and nothing is sent any more.
5. It belongs to one client id and one version of MQTT, which its first record names.
"""

import os
import zlib
from dataclasses import replace
from pathlib import Path
from struct import Struct
from typing import Final

from holdfast.client.options import ConnectionOptions
from holdfast.client.state import ClientState
from holdfast.files.lock import FileLock
from holdfast.files.private import FILE_MODE
from holdfast.files.replacement import replace_file
from holdfast.model.errors import MisuseError, PermanentError, PoisonedError, TransientError
from holdfast.model.protocol import MAX_U32

# On disk. Never change.
_MAGIC: Final = b"HFCLIENT"
_VERSION: Final = 1
_HEADER: Final = _MAGIC + bytes((_VERSION,))
_BATCH: Final = Struct("<II")

#: Below this a file is not worth compacting.
COMPACT_BYTES: Final = 1 << 20
_COMPACT_FACTOR: Final = 4


class ClientStateFile:
    """An open state file, and the state that was read from it. Made by `open_state`."""

    def __init__(self, path: Path, version: int, client_id: str) -> None:
        """TransientError if another process has it; PermanentError if it is no state file of this client."""
        self._path: Final = path
        self._lock: Final = FileLock(path.with_name(f"{path.name}.lock"))
        self._descriptor = -1
        self._poisoned = False
        try:
            if not self._lock.acquire(wait_s=0):
                raise TransientError(f"{path} is in use by another process")
            self.state: Final = ClientState(version, client_id)
            self._load()
            self._replace(self.state.snapshot())
        except BaseException:
            self.close()
            raise
        self.state.recording = True

    def wants_snapshot(self, more_bytes: int) -> bool:
        """Whether `store` should get a snapshot."""
        return self._size_bytes + more_bytes > max(COMPACT_BYTES, _COMPACT_FACTOR * self._snapshot_bytes)

    def store(self, records: bytes, snapshot: bytes = b"", *, sync: bool) -> None:
        """Append records, or replace the file by a snapshot that has them.

        Survives: a killed process; with `sync`, or a snapshot, also a power loss. PoisonedError if it fails.
        """
        if self._poisoned:
            raise PoisonedError(f"{self._path}: an earlier write failed")
        try:
            if snapshot:
                self._replace(snapshot)
                return
            batch = memoryview(_encode_batch(records))
            self._size_bytes += len(batch)
            while batch:
                batch = batch[os.write(self._descriptor, batch) :]
            if sync:
                os.fdatasync(self._descriptor)
        except OSError as error:
            self._poisoned = True
            raise PoisonedError(f"{self._path}: {error.strerror}; nothing more is sent") from error

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        self._lock.release()

    def _load(self) -> None:
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return
        if data[: len(_MAGIC)] != _MAGIC:
            raise PermanentError(f"{self._path} is not the state file of a client")
        if data[len(_MAGIC)] != _VERSION:
            raise PermanentError(f"{self._path} has version {data[len(_MAGIC)]}; this program reads {_VERSION}")
        at = len(_HEADER)
        while at + _BATCH.size <= len(data):
            length, checksum = _BATCH.unpack_from(data, at)
            records = data[at + _BATCH.size : at + _BATCH.size + length]
            if len(records) < length or zlib.crc32(records) != checksum:
                return
            try:
                self.state.apply(records)
            except PermanentError as error:
                raise PermanentError(f"{self._path}: {error}") from None
            at += _BATCH.size + length

    def _replace(self, snapshot: bytes) -> None:
        data = _HEADER + _encode_batch(snapshot)
        replace_file(self._path, data, mode=FILE_MODE)
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        self._size_bytes = self._snapshot_bytes = len(data)


def open_state(options: ConnectionOptions, path: Path) -> tuple[ConnectionOptions, ClientStateFile]:
    """A client's state file, and the options with which the broker keeps the session that it belongs to."""
    if not options.client_id:
        raise MisuseError("a state file needs a client id, by which the broker finds the session again")
    options = replace(options, clean_start=False, session_expiry_s=options.session_expiry_s or MAX_U32)
    return options, ClientStateFile(path, options.version, options.client_id)


def _encode_batch(records: bytes) -> bytes:
    return _BATCH.pack(len(records), zlib.crc32(records)) + records
