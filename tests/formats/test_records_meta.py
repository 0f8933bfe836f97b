"""Golden bytes of the records of `meta`, of retained messages and of cursors, with their keys."""

from base64 import urlsafe_b64decode
from collections.abc import Callable
from zlib import crc32

import pytest

from holdfast.model.errors import PermanentError
from holdfast.records import meta_keys
from holdfast.records.cursors import Cursor, decode_cursor, encode_cursor
from holdfast.records.folder import decode_folder, encode_folder
from holdfast.records.generations import (
    decode_generation,
    decode_zone,
    encode_generation,
    encode_zone,
    family_name,
)
from holdfast.records.positions import (
    decode_applied,
    decode_ceiling,
    decode_head,
    encode_applied,
    encode_ceiling,
    encode_head,
)
from holdfast.records.retained import decode_retained, encode_retained, expiry_key, retained_key
from holdfast.records.session.numbers import decode_number, encode_number
from tests.formats import golden_records as golden

pytestmark = pytest.mark.compiled


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param(encode_folder(golden.FOLDER), golden.FOLDER_BYTES, id="data folder"),
        pytest.param(encode_ceiling(golden.CEILING_US), golden.CEILING_BYTES, id="ceiling"),
        pytest.param(encode_head(golden.HEAD), golden.HEAD_BYTES, id="head"),
        pytest.param(encode_applied(golden.APPLIED), golden.APPLIED_BYTES, id="applied"),
        pytest.param(encode_number(golden.NUMBER), golden.NUMBER_BYTES, id="number"),
        pytest.param(encode_zone(golden.ZONE), golden.ZONE_BYTES, id="zone"),
        pytest.param(encode_generation(golden.GENERATION), golden.GENERATION_BYTES, id="generation"),
        pytest.param(encode_generation(golden.EDITED), golden.EDITED_BYTES, id="generation in an edition"),
        pytest.param(encode_retained(golden.RETAINED), golden.RETAINED_BYTES, id="retained"),
    ],
)
def test_records_are_written_as_their_golden_bytes(written: bytes, expected: bytes) -> None:
    assert written.hex(" ") == expected.hex(" ")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param(meta_keys.FOLDER_KEY, "01", id="data folder"),
        pytest.param(meta_keys.zone_key("machines"), golden.ZONE_KEY.hex(), id="zone"),
        pytest.param(meta_keys.generation_key("m", 2), golden.GENERATION_KEY.hex(), id="generation"),
        pytest.param(meta_keys.ceiling_key(258), "040102", id="ceiling"),
        pytest.param(meta_keys.head_key(258), "050102", id="head"),
        pytest.param(meta_keys.applied_key(258), "060102", id="applied"),
        pytest.param(meta_keys.number_key("ä1"), "07c3a431", id="number"),
        pytest.param(retained_key(b"a/b"), golden.RETAINED_KEY.hex(), id="retained"),
        pytest.param(expiry_key(golden.T, b"a/b"), golden.EXPIRY_KEY.hex(), id="expiry of a retained message"),
    ],
)
def test_keys_are_written_as_their_golden_bytes(written: bytes, expected: str) -> None:
    assert written.hex() == expected


def test_column_families_have_their_golden_names() -> None:
    assert family_name(258, 2) == "log-00258-00000002"
    assert golden.EDITED.family(258) == "log-00258-00000002-1700000000000009"


def fields_of(record: object, names: str) -> list[object]:
    return [getattr(record, name) for name in names.split()]


@pytest.mark.parametrize(
    ("read", "expected", "names"),
    [
        pytest.param(
            decode_folder(golden.FOLDER_BYTES), golden.FOLDER, "format_version created_us creator", id="folder"
        ),
        pytest.param(decode_head(golden.HEAD_BYTES), golden.HEAD, "position_us serial commits", id="head"),
        pytest.param(decode_applied(golden.APPLIED_BYTES), golden.APPLIED, "sequence source", id="applied"),
        pytest.param(decode_number(golden.NUMBER_BYTES), golden.NUMBER, "number taken_us", id="number"),
        pytest.param(
            decode_zone(golden.ZONE_KEY, golden.ZONE_BYTES), golden.ZONE, "name shards filters created_us", id="zone"
        ),
        pytest.param(
            decode_generation(golden.GENERATION_KEY, golden.GENERATION_BYTES),
            golden.GENERATION,
            "zone number layout parameters start_us end_us shards created_us inherits last_serials",
            id="generation",
        ),
        pytest.param(
            decode_generation(golden.GENERATION_KEY, golden.EDITED_BYTES),
            golden.EDITED,
            "zone number layout parameters start_us end_us shards created_us inherits last_serials edition",
            id="generation in an edition",
        ),
        pytest.param(
            decode_retained(golden.RETAINED_BYTES), golden.RETAINED, "stored shard stored_us", id="retained message"
        ),
    ],
)
def test_golden_bytes_are_read_as_their_record(read: object, expected: object, names: str) -> None:
    assert fields_of(read, names) == fields_of(expected, names)


def test_a_golden_ceiling_is_read() -> None:
    assert decode_ceiling(golden.CEILING_BYTES) == golden.CEILING_US


def test_a_cursor_is_written_and_read_as_its_golden_text() -> None:
    cursor = Cursor(golden.CURSOR_ZONE, golden.CURSOR_DONE)

    assert encode_cursor(cursor) == golden.CURSOR_TEXT
    assert decode_cursor(golden.CURSOR_TEXT) == cursor


def test_the_golden_cursor_holds_the_bytes_that_the_format_describes() -> None:
    data = urlsafe_b64decode(golden.CURSOR_TEXT.removeprefix("c1-") + "=")

    assert data == golden.CURSOR_BODY + crc32(golden.CURSOR_BODY).to_bytes(4, "little")


@pytest.mark.parametrize(
    ("decode", "value"),
    [
        pytest.param(decode_folder, golden.FOLDER_BYTES, id="data folder"),
        pytest.param(decode_ceiling, golden.CEILING_BYTES, id="ceiling"),
        pytest.param(decode_head, golden.HEAD_BYTES, id="head"),
        pytest.param(decode_applied, golden.APPLIED_BYTES, id="applied"),
        pytest.param(decode_number, golden.NUMBER_BYTES, id="number"),
        pytest.param(lambda value: decode_zone(golden.ZONE_KEY, value), golden.ZONE_BYTES, id="zone"),
        pytest.param(
            lambda value: decode_generation(golden.GENERATION_KEY, value), golden.EDITED_BYTES, id="generation"
        ),
        pytest.param(decode_retained, golden.RETAINED_BYTES, id="retained"),
    ],
)
def test_every_record_that_is_cut_or_too_long_or_of_another_version_is_refused(
    decode: Callable[[bytes], object], value: bytes
) -> None:
    for length in range(len(value)):
        with pytest.raises(PermanentError):
            decode(value[:length])
    with pytest.raises(PermanentError, match=r"more|add up"):
        decode(value + b"\x00")
    with pytest.raises(PermanentError, match="version 9"):
        decode(b"\x09" + value[1:])
