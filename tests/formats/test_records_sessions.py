"""Golden bytes of how far a session has come: its progress in both versions, and its walks."""

from collections.abc import Callable

import pytest

from holdfast.model.errors import PermanentError
from holdfast.records.sessions import Progress, decode_progress, encode_progress, walk_key
from holdfast.records.walks import decode_walk, encode_walk
from tests.formats import golden_records as golden

pytestmark = pytest.mark.compiled

PROGRESSES = [
    pytest.param(golden.LOGGED, golden.LOGGED_BYTES, id="version 1"),
    pytest.param(golden.PROGRESS, golden.PROGRESS_BYTES, id="version 2"),
]


@pytest.mark.parametrize(("progress", "value"), PROGRESSES)
def test_a_progress_is_written_and_read_as_its_golden_bytes(progress: Progress, value: bytes) -> None:
    assert encode_progress(progress).hex(" ") == value.hex(" ")
    read = decode_progress(value)
    assert (read.sent, read.unacknowledged, read.last_packet_id) == (
        progress.sent,
        progress.unacknowledged,
        progress.last_packet_id,
    )


def test_a_walk_is_written_and_read_as_its_golden_bytes() -> None:
    assert encode_walk(golden.WALK).hex(" ") == golden.WALK_BYTES.hex(" ")
    assert decode_walk(golden.WALK_BYTES) == golden.WALK
    assert walk_key("ü", b"a/#").hex(" ") == golden.WALK_KEY.hex(" ")


@pytest.mark.parametrize(
    ("decode", "value", "unknown"),
    [
        pytest.param(decode_progress, golden.LOGGED_BYTES, 3, id="progress, version 1"),
        pytest.param(decode_progress, golden.PROGRESS_BYTES, 3, id="progress, version 2"),
        pytest.param(decode_walk, golden.WALK_BYTES, 2, id="walk"),
    ],
)
def test_what_is_cut_or_too_long_or_of_an_unknown_version_is_refused(
    decode: Callable[[bytes], object], value: bytes, unknown: int
) -> None:
    for length in range(len(value)):
        with pytest.raises(PermanentError):
            decode(value[:length])
    with pytest.raises(PermanentError, match="more"):
        decode(value + b"\x00")
    for version in (0, unknown):
        with pytest.raises(PermanentError, match=f"version {version},"):
            decode(bytes((version,)) + value[1:])
