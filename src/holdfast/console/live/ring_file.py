"""A ring of rows on disk: a row of numbers for each step of time, the oldest overwritten. Its size never changes.

    ┌───────────────────────────────── header, 4096 bytes ─────────────────────────────────┐
    │ magic "HFCHART1" │ step_s u32 │ slots u32 │ columns u32 │ names, newline between │ … │ crc32 u32 │
    └───────────────────────────────────────────────────────────────────────────────────────┘
    │ slot 0 │ slot 1 │ …                                                      little endian throughout
      slot: number u64 = time / step   f32 for each column (NaN: unknown)   crc32 u32 of both

1. A slot counts if its checksum is right and its number is the one that was asked for. So a torn write, and a row of an
   earlier round, are gaps.
2. Nothing is synced: a row that a power loss takes is a gap in a chart. A killed process loses none.
3. A file with another header is not ours any more: it is begun again, with the rows of the columns that both have.
"""

import math
import os
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from holdfast.files.private import FILE_MODE
from holdfast.files.replacement import open_replacement

_MAGIC: Final = b"HFCHART1"
_HEADER_BYTES: Final = 4096
_HEADER: Final = struct.Struct("<8sIII")
_CRC: Final = struct.Struct("<I")
_NUMBER: Final = struct.Struct("<Q")

Row = tuple[float | None, ...]


class RingFile:
    """An open ring."""

    def __init__(self, path: Path, step_s: int, slots: int, names: Sequence[str]) -> None:
        """Open the ring, or make it. OSError if that is impossible."""
        self.step_s: Final = step_s
        self.slots: Final = slots
        self.names: Final = tuple(names)
        self._row: Final = struct.Struct(f"<{len(self.names)}f")
        self._slot_bytes: Final = _NUMBER.size + self._row.size + _CRC.size
        header = _encode_header(step_s, slots, self.names)
        size = _HEADER_BYTES + slots * self._slot_bytes
        if not _has_header(path, header, size):
            _make(path, header, size, self._carried(path))
        self._descriptor: Final = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def write(self, number: int, values: Sequence[float | None]) -> None:
        """The row of a step. `number` is its time divided by the step."""
        os.pwrite(self._descriptor, self._encode(number, values), self._place(number))

    def read(self, first: int, last: int) -> list[Row | None]:
        """The rows of steps `first` to `last`, both included; None for a gap. Requires: at most `slots` rows."""
        rows: list[Row | None] = []
        number = first
        while number <= last:
            index = number % self.slots
            count = min(last - number + 1, self.slots - index)
            data = os.pread(self._descriptor, count * self._slot_bytes, self._place(number))
            rows += [
                self._decode(number + i, data[i * self._slot_bytes : (i + 1) * self._slot_bytes]) for i in range(count)
            ]
            number += count
        return rows

    def close(self) -> None:
        os.close(self._descriptor)

    def _place(self, number: int) -> int:
        return _HEADER_BYTES + number % self.slots * self._slot_bytes

    def _encode(self, number: int, values: Sequence[float | None]) -> bytes:
        row = self._row.pack(*(math.nan if value is None else _fitting(value) for value in values))
        data = _NUMBER.pack(number) + row
        return data + _CRC.pack(zlib.crc32(data))

    def _decode(self, number: int, slot: bytes) -> Row | None:
        if len(slot) < self._slot_bytes or _NUMBER.unpack_from(slot)[0] != number:
            return None
        if zlib.crc32(slot[: -_CRC.size]) != _CRC.unpack_from(slot, len(slot) - _CRC.size)[0]:
            return None
        values = self._row.unpack_from(slot, _NUMBER.size)
        return tuple(None if math.isnan(value) else value for value in values)

    def _carried(self, path: Path) -> dict[int, bytes]:
        """Slots of an older file of the same step that has other columns, as this file has them, by their index."""
        old = _read_header(path)
        if old is None or old[0] != self.step_s or old[2] == self.names:
            return {}
        _step_s, slots, names = old
        row = struct.Struct(f"<{len(names)}f")
        slot_bytes = _NUMBER.size + row.size + _CRC.size
        column_of = {name: index for index, name in enumerate(names)}
        carried: dict[int, bytes] = {}
        data = path.read_bytes()[_HEADER_BYTES:]
        for start in range(0, min(len(data), slots * slot_bytes), slot_bytes):
            slot = data[start : start + slot_bytes]
            if len(slot) < slot_bytes or zlib.crc32(slot[:-4]) != _CRC.unpack_from(slot, slot_bytes - 4)[0]:
                continue
            values = row.unpack_from(slot, _NUMBER.size)
            number = _NUMBER.unpack_from(slot)[0]
            kept = [values[column_of[name]] if name in column_of else None for name in self.names]
            carried[number % self.slots] = self._encode(number, kept)
        return carried


def _fitting(value: float) -> float:
    """Within f32, so that packing never fails."""
    return max(-3.4e38, min(3.4e38, value))


def _encode_header(step_s: int, slots: int, names: tuple[str, ...]) -> bytes:
    data = _HEADER.pack(_MAGIC, step_s, slots, len(names)) + "\n".join(names).encode()
    padded = data.ljust(_HEADER_BYTES - _CRC.size, b"\0")
    return padded + _CRC.pack(zlib.crc32(padded))


def _read_header(path: Path) -> tuple[int, int, tuple[str, ...]] | None:
    """Step, slots and names; None if it is no header of ours."""
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
    except FileNotFoundError:
        return None
    if (
        len(header) < _HEADER_BYTES
        or zlib.crc32(header[: -_CRC.size]) != _CRC.unpack_from(header, _HEADER_BYTES - 4)[0]
    ):
        return None
    magic, step_s, slots, columns = _HEADER.unpack_from(header)
    names = tuple(header[_HEADER.size : -_CRC.size].rstrip(b"\0").decode().split("\n"))
    return (step_s, slots, names) if magic == _MAGIC and len(names) == columns else None


def _has_header(path: Path, header: bytes, size: int) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(_HEADER_BYTES) == header and path.stat().st_size == size
    except FileNotFoundError:
        return False


def _make(path: Path, header: bytes, size: int, slots: dict[int, bytes]) -> None:
    with open_replacement(path, mode=FILE_MODE) as file:
        file.write(header)
        file.truncate(size)
        for index, slot in slots.items():
            file.seek(_HEADER_BYTES + index * len(slot))
            file.write(slot)
