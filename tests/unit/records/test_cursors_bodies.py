"""Cursors whose check is right and whose contents are not: somebody made them on purpose."""

from base64 import urlsafe_b64encode
from zlib import crc32

import pytest

from holdfast.model.errors import PermanentError
from holdfast.records.cursors import Cursor, decode_cursor

pytestmark = pytest.mark.compiled


def dressed(body: str) -> str:
    data = bytes.fromhex(body)
    return "c1-" + urlsafe_b64encode(data + crc32(data).to_bytes(4, "little")).decode().rstrip("=")


def test_a_body_in_order_is_read() -> None:
    assert decode_cursor(dressed("01 7a 02 03 04 01 02")) == Cursor("z", {3: 2, 4: 3})


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("00 00", id="no zone"),
        pytest.param("05 7a 00", id="the zone is longer than the body"),
        pytest.param("01 ff 00", id="the zone is not UTF-8"),
        pytest.param("01 7a", id="no count"),
        pytest.param("01 7a 02 03 04", id="fewer shards than the count"),
        pytest.param("01 7a 01 03 04 00", id="bytes behind the last shard"),
        pytest.param("01 7a 02 03 04 00 02", id="a shard twice"),
        pytest.param("01 7a 01 80 80 04 02", id="shard 65536"),
        pytest.param("01 7a 01 03 01", id="a position below 0"),
        pytest.param("01 7a 01 03 80 80 80 80 80 80 80 80 80 02", id="a position of 65 bits"),
        pytest.param("01 7a 01 03 ff ff ff ff ff ff ff ff ff ff ff 01", id="a number without an end"),
        pytest.param("01 7a ff ff ff ff 0f", id="a count that nothing follows"),
    ],
)
def test_a_body_out_of_order_is_refused(body: str) -> None:
    with pytest.raises(PermanentError, match="is damaged"):
        decode_cursor(dressed(body))
