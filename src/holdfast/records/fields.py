"""Fields of the small records: numbers of fixed size, and text behind its length. Little-endian.

    u8  u16  u32  u64  i64      as they are
    text                        u16 bytes, then UTF-8
    blob                        u32 bytes, then they

Every small record begins with a version byte. A `RecordReader` reads one record, and names record and field in its
errors, so that a report of damage says what was lost.
"""

from struct import Struct, error
from typing import Any, Final

from holdfast.model.errors import MisuseError, PermanentError

_U64: Final = Struct("<Q")
_I64: Final = Struct("<q")
_U16_KEY: Final = Struct(">H")
_U32_KEY: Final = Struct(">I")
_U64_KEY: Final = Struct(">Q")


class ValueRecord:
    """A record that equals those of its class with the same fields. Not for hot comparisons."""

    def _fields(self) -> tuple[object, ...]:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ValueRecord) and type(other) is type(self) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self._fields()}"


class RecordReader:
    """A place in the bytes of one record; `record` names it in errors."""

    def __init__(self, value: bytes, record: str, newest: int) -> None:
        """Read the version byte, from 1 to the newest version that is known; PermanentError for another one."""
        if not value:
            raise PermanentError(f"{record} has 0 bytes and ends within the version")
        version = value[0]
        if not 1 <= version <= newest:
            known = f"versions 1 to {newest}" if newest > 1 else "version 1"
            raise PermanentError(f"{record} has version {version}, this Holdfast reads {known}")
        self.version: Final = version
        self._value: Final = value
        self._record: Final = record
        self._at = 1

    def u8(self, field: str) -> int:
        return self._value[self._step(1, field)]

    # By single bytes: compiled, that costs a tenth of a call of struct.
    def u16(self, field: str) -> int:
        at, value = self._step(2, field), self._value
        return value[at] | value[at + 1] << 8

    def u32(self, field: str) -> int:
        at, value = self._step(4, field), self._value
        return value[at] | value[at + 1] << 8 | value[at + 2] << 16 | value[at + 3] << 24

    def u64(self, field: str) -> int:
        return int(_U64.unpack_from(self._value, self._step(8, field))[0])

    def i64(self, field: str) -> int:
        return int(_I64.unpack_from(self._value, self._step(8, field))[0])

    def numbers(self, layout: Struct, fields: str) -> tuple[int, ...]:
        """Numbers of fixed size, read with one call."""
        return layout.unpack_from(self._value, self._step(layout.size, fields))

    def text(self, field: str) -> str:
        count = self.u16(field)
        start = self._step(count, field)
        try:
            return self._value[start : start + count].decode()
        except UnicodeDecodeError:
            raise PermanentError(f"{self._record}: {field} is not UTF-8") from None

    def blob(self, field: str) -> bytes:
        """Bytes behind their length."""
        count = self.u32(field)
        start = self._step(count, field)
        return self._value[start : start + count]

    def raw(self, count: int, field: str) -> bytes:
        """Bytes without a length in front of them."""
        start = self._step(count, field)
        return self._value[start : start + count]

    def rest(self) -> bytes:
        """Everything up to the end."""
        return self._value[self._step(len(self._value) - self._at, "the rest") :]

    def end(self) -> None:
        """PermanentError unless everything was read."""
        left = len(self._value) - self._at
        if left:
            raise PermanentError(f"{self._record} has {left} bytes more than its fields")

    def _step(self, count: int, field: str) -> int:
        start = self._at
        if start + count > len(self._value):
            raise PermanentError(f"{self._record} has {len(self._value)} bytes and ends within {field}")
        self._at = start + count
        return start


def read_fixed(layout: Struct, value: bytes, record: str, newest: int) -> tuple[Any, ...]:
    """All fields of a record of fixed size, with its version in front. It fails as `RecordReader` does."""
    if len(value) != layout.size or not 1 <= value[0] <= newest:
        version = RecordReader(value, record, newest).version
        raise PermanentError(f"{record} of version {version} has {len(value)} bytes, {layout.size} would be right")
    return layout.unpack(value)


def _packed(layout: Struct, value: int) -> bytes:
    try:
        return layout.pack(value)
    except error as wrong:
        raise MisuseError(f"{value} does not fit into its field ({wrong})") from wrong


def u8(value: int) -> bytes:
    if not 0 <= value <= 0xFF:
        raise MisuseError(f"{value} does not fit into one byte")
    return bytes((value,))


def u16(value: int) -> bytes:
    if not 0 <= value <= 0xFFFF:
        raise MisuseError(f"{value} does not fit into two bytes")
    return value.to_bytes(2, "little")


def u32(value: int) -> bytes:
    if not 0 <= value <= 0xFFFFFFFF:
        raise MisuseError(f"{value} does not fit into four bytes")
    return value.to_bytes(4, "little")


def u64(value: int) -> bytes:
    return _packed(_U64, value)


def i64(value: int) -> bytes:
    return _packed(_I64, value)


def numbers(layout: Struct, *values: int) -> bytes:
    """Numbers of fixed size, written with one call."""
    try:
        return layout.pack(*values)
    except error as wrong:
        raise MisuseError(f"{values} do not fit into their fields ({wrong})") from wrong


def text(value: str) -> bytes:
    encoded = value.encode()
    return u16(len(encoded)) + encoded


def blob(value: bytes) -> bytes:
    """Bytes behind their length."""
    return len(value).to_bytes(4, "little") + value


def key_u16(value: int) -> bytes:
    """Big-endian: keys of numbers sort as the numbers do."""
    return _packed(_U16_KEY, value)


def key_u32(value: int) -> bytes:
    return _packed(_U32_KEY, value)


def key_u64(value: int) -> bytes:
    return _packed(_U64_KEY, value)
