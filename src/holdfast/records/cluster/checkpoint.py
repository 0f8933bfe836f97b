"""What nodes say to each other when one is installed from a checkpoint of another: requests, answers, announcements.

    all     version u8 = 1 │ kind u8 │ cluster id 16 bytes │ node u32: who says it │ the fields of the kind

    kind  what        fields
    ────  ──────────  ─────────────────────────────────────────────────────────────────────────────────────────────
    01    open        vnodes u16, each: the least sequence that is of use u64
    02    read        checkpoint 16 bytes │ file u32 │ offset u64 │ bytes u32
    03    close       checkpoint 16 bytes
    81    refused     why text
    82    preparing   bytes done u64 │ bytes in all u64
    83    manifest    checkpoint 16 bytes │ format u16 │ vnodes u16, each: sequence u64
                      │ files u32, each: name text │ bytes u64 │ SHA-256 32 bytes
    84    piece       CRC-32 u32 │ bytes blob
    85    closed      nothing
    c1    hold        vnodes u16, each: sequence u64

Kinds are hexadecimal: requests from 01, their answers from 81, and what is announced to all nodes from c1. The node
that is installed keeps the manifest beside the files until it has all of them. `format` is that of a data folder
(`records/folder.py`): a node installs nothing that it could not open.
"""

import re
from dataclasses import dataclass
from typing import Final

from holdfast.model.errors import PermanentError
from holdfast.records.cluster.record import CLUSTER_ID_BYTES
from holdfast.records.fields import RecordReader, blob, text, u8, u16, u32, u64
from holdfast.records.folder import FORMAT, OLDEST_FORMAT

#: Never change.
VERSION: Final = 1
OPEN: Final = 0x01
READ: Final = 0x02
CLOSE: Final = 0x03
REFUSED: Final = 0x81
PREPARING: Final = 0x82
MANIFEST: Final = 0x83
PIECE: Final = 0x84
CLOSED: Final = 0x85
HOLD: Final = 0xC1
CHECKPOINT_BYTES: Final = 16
SHA256_BYTES: Final = 32

#: A name within one folder.
_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}")


@dataclass(frozen=True)
class OpenCheckpoint:
    """Make a checkpoint, or go on with one that is still there. Answered by preparing, manifest or refused."""

    least: tuple[int, ...]


@dataclass(frozen=True)
class ReadPiece:
    """Give a part of a file. Answered by piece or refused."""

    checkpoint: bytes
    file: int
    offset: int
    size_bytes: int


@dataclass(frozen=True)
class CloseCheckpoint:
    """The checkpoint is not needed any more. Answered by closed."""

    checkpoint: bytes


@dataclass(frozen=True)
class CheckpointRefused:
    """Why a request is not answered."""

    why: str


@dataclass(frozen=True)
class Preparing:
    """The checkpoint is being made: ask again."""

    done_bytes: int
    total_bytes: int


@dataclass(frozen=True)
class CheckpointFile:
    """A file of a checkpoint."""

    name: str
    size_bytes: int
    sha256: bytes


@dataclass(frozen=True)
class Manifest:
    """A checkpoint: the sequence that it has applied in each vnode, or a later one, and its files."""

    checkpoint: bytes
    sequences: tuple[int, ...]
    files: tuple[CheckpointFile, ...]
    format: int = FORMAT

    @property
    def size_bytes(self) -> int:
        return sum([file.size_bytes for file in self.files])


@dataclass(frozen=True)
class Piece:
    """A part of a file, and the CRC-32 of these bytes."""

    checksum: int
    content: bytes


@dataclass(frozen=True)
class CheckpointClosed:
    """The checkpoint is gone, or was gone before."""


@dataclass(frozen=True)
class Hold:
    """The sequences, by vnode, from which on logs are needed by a node that is being installed."""

    sequences: tuple[int, ...]


Said = (
    OpenCheckpoint
    | ReadPiece
    | CloseCheckpoint
    | CheckpointRefused
    | Preparing
    | Manifest
    | Piece
    | CheckpointClosed
    | Hold
)


@dataclass(frozen=True)
class CheckpointMessage:
    """Something that a node of a cluster says."""

    cluster_id: bytes
    node: int
    said: Said


def encode_checkpoint_message(message: CheckpointMessage) -> bytes:
    kind, fields = _encode(message.said)
    return b"".join((u8(VERSION), u8(kind), message.cluster_id, u32(message.node), fields))


def decode_checkpoint_message(value: bytes) -> CheckpointMessage:
    """PermanentError: it is damaged, of a later version, or names what no data folder has."""
    fields = RecordReader(value, "a message about a checkpoint", VERSION)
    kind = fields.u8("the kind")
    cluster_id = fields.raw(CLUSTER_ID_BYTES, "the cluster's id")
    node = fields.u32("the node")
    found = _decode(kind, fields)
    fields.end()
    return CheckpointMessage(cluster_id, node, found)


def _encode(said: Said) -> tuple[int, bytes]:
    if isinstance(said, OpenCheckpoint):
        return OPEN, _sequences(said.least)
    if isinstance(said, ReadPiece):
        return READ, b"".join((said.checkpoint, u32(said.file), u64(said.offset), u32(said.size_bytes)))
    if isinstance(said, CloseCheckpoint):
        return CLOSE, said.checkpoint
    if isinstance(said, CheckpointRefused):
        return REFUSED, text(said.why)
    if isinstance(said, Preparing):
        return PREPARING, u64(said.done_bytes) + u64(said.total_bytes)
    if isinstance(said, Manifest):
        files = [text(file.name) + u64(file.size_bytes) + file.sha256 for file in said.files]
        head = (said.checkpoint, u16(said.format), _sequences(said.sequences), u32(len(files)))
        return MANIFEST, b"".join((*head, *files))
    if isinstance(said, Piece):
        return PIECE, u32(said.checksum) + blob(said.content)
    if isinstance(said, Hold):
        return HOLD, _sequences(said.sequences)
    return CLOSED, b""


def _decode(kind: int, fields: RecordReader) -> Said:
    if kind == OPEN:
        return OpenCheckpoint(_read_sequences(fields))
    if kind == READ:
        return ReadPiece(
            _checkpoint(fields), fields.u32("the file"), fields.u64("the offset"), fields.u32("the bytes wanted")
        )
    if kind == CLOSE:
        return CloseCheckpoint(_checkpoint(fields))
    if kind == REFUSED:
        return CheckpointRefused(fields.text("the reason"))
    if kind == PREPARING:
        return Preparing(fields.u64("the bytes done"), fields.u64("the bytes in all"))
    if kind == MANIFEST:
        return _read_manifest(fields)
    if kind == PIECE:
        return Piece(fields.u32("the checksum"), fields.blob("the content"))
    if kind == CLOSED:
        return CheckpointClosed()
    if kind == HOLD:
        return Hold(_read_sequences(fields))
    raise PermanentError(f"a message about a checkpoint has the unknown kind {kind:02x}")


def _read_manifest(fields: RecordReader) -> Manifest:
    checkpoint = _checkpoint(fields)
    found = fields.u16("the format")
    if not OLDEST_FORMAT <= found <= FORMAT:
        raise PermanentError(
            f"the checkpoint has format {found} of data folders, and this Holdfast reads {OLDEST_FORMAT} to {FORMAT}"
        )
    sequences = _read_sequences(fields)
    files = [_read_file(fields) for _file in range(fields.u32("the files"))]
    if len({file.name for file in files}) != len(files):
        raise PermanentError("the checkpoint names a file twice")
    return Manifest(checkpoint, sequences, tuple(files), found)


def _read_file(fields: RecordReader) -> CheckpointFile:
    name = fields.text("the name of a file")
    if _NAME.fullmatch(name) is None:
        raise PermanentError(f"the checkpoint has a file {name!r}; right would be letters, digits, dots and dashes")
    return CheckpointFile(name, fields.u64("the bytes of a file"), fields.raw(SHA256_BYTES, "the SHA-256 of a file"))


def _checkpoint(fields: RecordReader) -> bytes:
    return fields.raw(CHECKPOINT_BYTES, "the checkpoint")


def _sequences(sequences: tuple[int, ...]) -> bytes:
    return b"".join([u16(len(sequences)), *[u64(sequence) for sequence in sequences]])


def _read_sequences(fields: RecordReader) -> tuple[int, ...]:
    return tuple([fields.u64("a sequence") for _vnode in range(fields.u16("the vnodes"))])
