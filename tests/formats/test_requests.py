"""Requests between nodes are written and read as their golden bytes."""

import pytest

from holdfast.model.errors import PermanentError
from holdfast.records.cluster import begin, gossip
from tests.formats import golden_requests as golden


def spaced(text: str) -> bytes:
    return bytes.fromhex(text)


def test_a_begin_is_written_and_read_as_its_golden_bytes() -> None:
    request = begin.BeginRequest("\u00fc", (2, 9, 3), 65536, (1, 10, 5))
    assert begin.encode_begin(request).hex(" ") == spaced(golden.BEGIN).hex(" ")
    assert begin.decode_begin(spaced(golden.BEGIN)) == request
    for length in range(len(spaced(golden.BEGIN))):
        with pytest.raises(PermanentError):
            begin.decode_begin(spaced(golden.BEGIN)[:length])


@pytest.mark.parametrize(("result", "value"), [(begin.BEGUN, golden.BEGUN), (begin.GONE, golden.GONE)])
def test_an_answer_to_a_begin_is_written_and_read_as_its_golden_bytes(result: int, value: str) -> None:
    assert begin.encode_begin_answer(result) == spaced(value)
    assert begin.decode_begin_answer(spaced(value)) == result


@pytest.mark.parametrize("value", [b"", b"\x01", b"\x01\x00", b"\x01\x03", b"\x01\x01\x00", b"\x02\x01"])
def test_another_answer_is_refused(value: bytes) -> None:
    with pytest.raises(PermanentError):
        begin.decode_begin_answer(value)


def test_gossip_is_written_and_read_as_its_golden_bytes() -> None:
    told = gossip.Gossip(2, 9, gossip.WHOLE, (("\u00fc", 3, 65536), ("a", 0, 131072)), 1, 3)
    assert gossip.encode_gossip(told).hex(" ") == spaced(golden.GOSSIP).hex(" ")
    assert gossip.decode_gossip(spaced(golden.GOSSIP)) == told
    for length in range(len(spaced(golden.GOSSIP))):
        with pytest.raises(PermanentError):
            gossip.decode_gossip(spaced(golden.GOSSIP)[:length])
    with pytest.raises(PermanentError, match="kind 4"):
        gossip.decode_gossip(gossip.encode_gossip(gossip.Gossip(2, 9, 4)))


def test_a_request_for_a_lock_is_written_and_read_as_its_golden_bytes() -> None:
    request = gossip.LockRequest(gossip.LOCK, "\u00fc", (1, 10, 5))
    assert gossip.encode_lock(request).hex(" ") == spaced(golden.LOCK).hex(" ")
    assert gossip.decode_lock(spaced(golden.LOCK)) == request
    for length in range(len(spaced(golden.LOCK))):
        with pytest.raises(PermanentError):
            gossip.decode_lock(spaced(golden.LOCK)[:length])
    with pytest.raises(PermanentError, match="act 3"):
        gossip.decode_lock(gossip.encode_lock(gossip.LockRequest(3, "a", (1, 1, 1))))
    assert gossip.encode_lock_answer(gossip.TAKEN) == spaced(golden.TAKEN)
    assert gossip.decode_lock_answer(spaced(golden.TAKEN)) == gossip.TAKEN
