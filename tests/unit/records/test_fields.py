"""Fields of small records: read back as they were written, and damage is named."""

from struct import Struct

import pytest

from holdfast.model.errors import MisuseError, PermanentError
from holdfast.records.fields import (
    RecordReader,
    blob,
    i64,
    key_u16,
    key_u32,
    key_u64,
    numbers,
    read_fixed,
    text,
    u8,
    u16,
    u32,
    u64,
)

pytestmark = pytest.mark.compiled


def name_of(value: bytes) -> str:
    """A record with a version and a name."""
    fields = RecordReader(value, "a record", 1)
    name = fields.text("its name")
    fields.end()
    return name


def test_fields_come_back_as_they_were_written() -> None:
    value = b"".join((u8(1), u16(2), u32(3), u64(4), i64(-5), text("é"), blob(b"\0"), b"rest"))
    fields = RecordReader(value, "a record", 1)

    assert fields.version == 1
    assert [fields.u16("a"), fields.u32("b"), fields.u64("c"), fields.i64("d")] == [2, 3, 4, -5]
    assert (fields.text("e"), fields.blob("f"), fields.rest()) == ("é", b"\0", b"rest")
    fields.end()


def test_numbers_are_little_endian_and_in_keys_big_endian() -> None:
    assert (u16(1), u32(1), u64(1)) == (b"\x01\0", b"\x01\0\0\0", b"\x01" + bytes(7))
    assert (key_u16(1), key_u32(1), key_u64(1)) == (b"\0\x01", b"\0\0\0\x01", bytes(7) + b"\x01")


def test_numbers_of_fixed_size_are_written_and_read_with_one_call() -> None:
    layout = Struct("<IQq")
    value = u8(1) + numbers(layout, 3, 4, -5)
    assert value == u8(1) + u32(3) + u64(4) + i64(-5)
    fields = RecordReader(value, "a record", 1)
    assert fields.numbers(layout, "its numbers") == (3, 4, -5)
    fields.end()
    with pytest.raises(PermanentError, match="a record has 20 bytes and ends within its numbers"):
        RecordReader(value[:-1], "a record", 1).numbers(layout, "its numbers")
    with pytest.raises(MisuseError, match=r"\(3, -4, 5\) do not fit into their fields"):
        numbers(layout, 3, -4, 5)


def test_a_record_of_fixed_size_is_read_with_one_call() -> None:
    layout = Struct("<BI")
    assert read_fixed(layout, u8(1) + u32(7), "a record", 1) == (1, 7)
    for value, wrong in (
        (b"", "a record has 0 bytes and ends within the version"),
        (u8(2) + u32(7), "a record has version 2, this Holdfast reads version 1"),
        (u8(0) + u32(7), "a record has version 0"),
        (u8(1) + u16(7), "a record of version 1 has 3 bytes, 5 would be right"),
        (u8(1) + u64(7), "a record of version 1 has 9 bytes, 5 would be right"),
    ):
        with pytest.raises(PermanentError, match=wrong):
            read_fixed(layout, value, "a record", 1)


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        (b"\x02", "a record has version 2, this Holdfast reads version 1"),
        (b"", "a record has 0 bytes and ends within the version"),
        (b"\x01\x05\0ab", "a record has 5 bytes and ends within its name"),
        (b"\x01\x01\0\xff", "a record: its name is not UTF-8"),
        (b"\x01\x01\0ax", "a record has 1 bytes more than its fields"),
    ],
)
def test_damage_names_the_record_and_the_field(value: bytes, wrong: str) -> None:
    with pytest.raises(PermanentError, match=wrong):
        name_of(value)


def test_a_record_may_have_several_versions() -> None:
    assert RecordReader(b"\x02", "a record", 2).version == 2
    for wrong in (b"\x00", b"\x03"):
        with pytest.raises(PermanentError, match="reads versions 1 to 2"):
            RecordReader(wrong, "a record", 2)


def test_a_number_that_does_not_fit_is_our_own_mistake() -> None:
    for encode, wrong in ((u8, 256), (u16, -1), (u32, 2**32), (u64, 2**64), (i64, 2**63)):
        with pytest.raises(MisuseError, match="does not fit"):
            encode(wrong)
