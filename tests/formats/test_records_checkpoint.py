"""Golden bytes of what nodes say when one is installed from a checkpoint of another."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.errors import PermanentError
from holdfast.records.cluster.checkpoint import (
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
from tests.formats.golden_cluster import CLUSTER
from tests.formats.golden_records import spaced

pytestmark = pytest.mark.compiled

CHECKPOINT = bytes(range(0xA0, 0xB0))
SHA256 = bytes(range(0x20))
#: Version, kind, cluster and node.
HEAD = "01  {}  c0 c1 c2 c3 c4 c5 c6 c7 c8 c9 ca cb cc cd ce cf  02 00 00 00  "
ID = "a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 aa ab ac ad ae af  "

SAID: dict[str, tuple[Said, str]] = {
    "open": (OpenCheckpoint((7, 258)), "01  02 00  07 00 00 00 00 00 00 00  02 01 00 00 00 00 00 00"),
    "read": (
        ReadPiece(CHECKPOINT, 3, 1 << 20, 258),
        "02  " + ID + "03 00 00 00  00 00 10 00 00 00 00 00  02 01 00 00",
    ),
    "close": (CloseCheckpoint(CHECKPOINT), "03  " + ID),
    "refused": (CheckpointRefused("no"), "81  02 00 6e 6f"),
    "preparing": (Preparing(1, 258), "82  01 00 00 00 00 00 00 00  02 01 00 00 00 00 00 00"),
    "manifest": (
        Manifest(CHECKPOINT, (5,), (CheckpointFile("a.sst", 258, SHA256),), 2),
        "83  "
        + ID
        + """02 00  01 00  05 00 00 00 00 00 00 00  01 00 00 00  05 00 61 2e 73 73 74  02 01 00 00 00 00 00 00
             00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f 10 11 12 13 14 15 16 17 18 19 1a 1b 1c 1d 1e 1f""",
    ),
    "piece": (Piece(0x01020304, b"ab"), "84  04 03 02 01  02 00 00 00  61 62"),
    "closed": (CheckpointClosed(), "85"),
    "hold": (Hold((9,)), "c1  01 00  09 00 00 00 00 00 00 00"),
}


def golden(value: str) -> bytes:
    kind, _space, fields = value.partition(" ")
    return spaced(HEAD.format(kind) + fields)


@pytest.mark.parametrize(("said", "value"), SAID.values(), ids=SAID)
def test_it_is_written_and_read_as_its_golden_bytes(said: Said, value: str) -> None:
    expected = golden(value)
    message = CheckpointMessage(CLUSTER, 2, said)
    assert encode_checkpoint_message(message).hex(" ") == expected.hex(" ")
    assert decode_checkpoint_message(expected) == message
    for length in range(len(expected)):
        with pytest.raises(PermanentError):
            decode_checkpoint_message(expected[:length])
    with pytest.raises(PermanentError, match="1 bytes more"):
        decode_checkpoint_message(expected + b"\0")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda value: b"\x02" + value[1:], "version 2, this Holdfast reads version 1"),
        (lambda value: value[:1] + b"\x99" + value[2:], "unknown kind 99"),
        (lambda value: value.replace(b"\x02\x00\x01\x00\x05", b"\x09\x00\x01\x00\x05"), "format 9 of data folders"),
        (lambda value: value.replace(b"a.sst", b"../st"), r"a file '\.\./st'"),
        (lambda value: value.replace(b"a.sst", b".hide"), "a file '.hide'"),
    ],
)
def test_what_a_node_must_not_install_is_refused_by_name(change: object, why: str) -> None:
    with pytest.raises(PermanentError, match=why):
        decode_checkpoint_message(change(golden(SAID["manifest"][1])))  # type: ignore[operator]


def test_a_file_is_named_once() -> None:
    file = CheckpointFile("CURRENT", 1, SHA256)
    message = CheckpointMessage(CLUSTER, 2, Manifest(CHECKPOINT, (), (file, file)))
    with pytest.raises(PermanentError, match="twice"):
        decode_checkpoint_message(encode_checkpoint_message(message))


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(content: bytes) -> None:
    for value in (content, b"\x01" + content, golden(SAID["manifest"][1])[:45] + content):
        try:
            found = decode_checkpoint_message(value)
        except PermanentError:
            continue
        assert encode_checkpoint_message(found) == value
