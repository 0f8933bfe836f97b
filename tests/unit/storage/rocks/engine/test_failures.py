"""RocksDB's words, as it says them, and what they mean."""

import pytest

from holdfast.storage.rocks.engine.failures import Failure, classify

APPEND = "IO error: No space left on device: While appending to file: /data/rocks/000004.log: No space left on device"


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        ("Result incomplete: Write stall", Failure.STALLED),
        (APPEND, Failure.FULL),
        (APPEND.replace("/data", "/sync/While"), Failure.FULL),
        ("IO error: Writer has previous error.", Failure.BROKEN),
        ("IO error: No space left on device: While fdatasync: /data/rocks/000004.log: No space left", Failure.LOST),
        ("IO error: While fdatasync: /data/rocks/000004.log: Input/output error", Failure.LOST),
        ("IO error: While appending to file: /data/rocks/000004.log: Input/output error", Failure.LOST),
        ("Corruption: block checksum mismatch", Failure.LOST),
    ],
)
def test_only_an_append_that_met_a_full_disk_is_harmless(text: str, failure: Failure) -> None:
    assert classify(Exception(text)) is failure
