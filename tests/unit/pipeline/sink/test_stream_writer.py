"""The rows of a stream have an order and numbers that do not depend on how they come."""

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from holdfast.client.message import OutgoingMessage
from holdfast.durable.sessions.publish_numbers import MAX_NUMBER
from holdfast.exchange.inbound import publish_number
from holdfast.model.errors import PermanentError
from holdfast.pipeline.sink.stream_writer import (
    PACKED,
    add_number,
    check_number,
    pack_message,
    sort_messages,
    unpack_message,
)


def test_the_order_does_not_depend_on_how_rows_come() -> None:
    made = [OutgoingMessage(0x32, b"t%d" % (number % 3), b"p", b"%d" % number) for number in range(9)]
    keys = [number // 4 if number != 5 else None for number in range(9)]

    def ordered(places: list[int]) -> list[OutgoingMessage]:
        packed = pa.array([pack_message(made[place]) for place in places], PACKED)
        return [
            unpack_message(value.as_py())
            for value in sort_messages(packed, [pa.array([keys[place] for place in places])])
        ]

    right = ordered(list(range(9)))
    assert ordered([4, 8, 0, 2, 6, 1, 3, 7, 5]) == right
    assert [message.payload for message in right[:1] + right[-1:]] == [b"0", b"5"]
    assert sorted(right) == sorted(made)


def test_numbers_increase_from_row_to_row_and_from_batch_to_batch() -> None:
    found = [
        publish_number(add_number(OutgoingMessage(0x32, b"a", b"\x02\0\0\0\1", b""), batch << 31 | row).properties)
        for batch, row in ((0, 1), (0, 2), (1, 1), (2**31, 1))
    ]
    assert found == sorted(set(found))
    assert found[0] == 1
    check_number(2**32 - 1, 2**31 - 1)
    for batch, rows in ((0, 2**31), (2**32, 1)):
        with pytest.raises(PermanentError, match="there is no number"):
            check_number(batch, rows)
    assert MAX_NUMBER == (2**32 - 1) << 31 | 2**31 - 1
