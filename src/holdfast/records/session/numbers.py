"""The last number of a client that numbers its messages.

0  version   u8    1
1  number    i64
9  taken     i64   when, in µs: a number that was not used for long is removed
"""

from typing import Final

from holdfast.records.fields import RecordReader, i64, u8

#: Never change.
VERSION: Final = 1


class LastNumber:
    """What was taken last of a client."""

    def __init__(self, number: int, taken_us: int) -> None:
        self.number: Final = number
        self.taken_us: Final = taken_us


def encode_number(last: LastNumber) -> bytes:
    return b"".join((u8(VERSION), i64(last.number), i64(last.taken_us)))


def decode_number(value: bytes) -> LastNumber:
    fields = RecordReader(value, "the last number of a client", VERSION)
    last = LastNumber(fields.i64("the number"), fields.i64("the time"))
    fields.end()
    return last
