"""Golden bytes of the console's charts: a ring that was written by an earlier version stays readable."""

import zlib
from pathlib import Path

from holdfast.console.live.ring_file import RingFile

#: Steps of 10 s, 4 slots, the columns `a` and `b`; the row 7 with 1.5 and nothing.
HEADER = bytes.fromhex("48464348415254310a0000000400000002000000610a62")
SLOT = bytes.fromhex("07000000000000000000c03f0000c07f")


def golden() -> bytes:
    header = HEADER.ljust(4092, b"\0")
    slot = SLOT + zlib.crc32(SLOT).to_bytes(4, "little")
    return header + zlib.crc32(header).to_bytes(4, "little") + bytes(3 * len(slot)) + slot


def test_a_ring_is_written_as_it_was_released(tmp_path: Path) -> None:
    ring = RingFile(tmp_path / "ring", 10, 4, ("a", "b"))
    ring.write(7, (1.5, None))
    assert (tmp_path / "ring").read_bytes() == golden()


def test_a_released_ring_is_read(tmp_path: Path) -> None:
    (tmp_path / "ring").write_bytes(golden())
    assert RingFile(tmp_path / "ring", 10, 4, ("a", "b")).read(6, 8) == [None, (1.5, None), None]
