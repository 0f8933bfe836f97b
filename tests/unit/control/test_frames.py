"""Frames of the control socket: any cut of the bytes gives the same words, and what is no frame is refused."""

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.control.frames import MAX_FRAME_BYTES, FrameReader, decode_body, encode_body, encode_frame
from holdfast.control.words import (
    Answer,
    ClientChanges,
    Hello,
    KickRequest,
    NodeInfo,
    Nothing,
    Push,
    Refusal,
    Request,
    Watch,
    Word,
)
from holdfast.model.errors import PermanentError


def spoken() -> list[Word]:
    return [
        Hello(1, 1, "holdfast 0.1.0", ("kick", "node")),
        Request(7, "kick", encode_body(KickRequest("press-7", "maintenance"))),
        Answer(7, encode_body(Nothing())),
        Refusal(8, "not_found", "there is no session 'x'"),
        Push("client_changes", encode_body(ClientChanges((), ("press-7",)))),
    ]


def seen(word: Word) -> object:
    """A word with its body as bytes, which can be compared."""
    return msgspec.msgpack.encode(word)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=200))
def test_words_arrive_whole_however_the_bytes_are_cut(cuts: list[int]) -> None:
    data = b"".join(map(encode_frame, spoken()))
    reader, found, start = FrameReader(), [], 0
    for size in [*cuts, len(data)]:
        found += reader.feed(data[start : start + size])
        start += size
    assert [seen(word) for word in found] == [seen(word) for word in spoken()]


def test_bodies_stay_readable_when_more_bytes_come() -> None:
    reader = FrameReader()
    (request,) = reader.feed(encode_frame(spoken()[1]))
    reader.feed(encode_frame(Hello(1, 1, "x" * 5000)))
    assert isinstance(request, Request)
    assert decode_body(request.body, KickRequest) == KickRequest("press-7", "maintenance")


def test_a_length_beyond_the_limit_is_refused_before_it_is_kept() -> None:
    reader = FrameReader()
    with pytest.raises(PermanentError, match=r"at most 1048576"):
        reader.feed((MAX_FRAME_BYTES + 1).to_bytes(4, "big") + b"x")


def test_a_word_that_does_not_fit_is_not_sent() -> None:
    with pytest.raises(PermanentError, match="longer than"):
        encode_frame(Refusal(1, "failed", "x" * MAX_FRAME_BYTES))


@given(st.binary(max_size=64))
def test_bytes_that_are_no_word_are_refused_as_such(data: bytes) -> None:
    with contextlib.suppress(msgspec.MsgspecError):
        msgspec.msgpack.decode(data, type=Word)
        return
    with pytest.raises(PermanentError, match="not a frame"):
        FrameReader().feed(len(data).to_bytes(4, "big") + data)


def test_a_body_of_another_word_is_refused() -> None:
    with pytest.raises(PermanentError, match="not a body of NodeInfo"):
        decode_body(encode_body(Watch(stats=True)), NodeInfo)


def test_a_field_of_a_newer_peer_is_passed_over() -> None:
    newer = msgspec.msgpack.encode({"stats": True, "clients": False, "weather": "fine"})
    assert decode_body(newer, Watch) == Watch(stats=True)
