"""Frames of the NATS protocol: whatever the pieces in which they come, and whatever is no frame."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cluster.nats.protocol import (
    NatsDecoder,
    NatsMessage,
    connect_frame,
    publish_frame,
    subscribe_frame,
    unsubscribe_frame,
)
from holdfast.model.errors import PermanentError

pytestmark = pytest.mark.compiled

STATUS = b"NATS/1.0 408 Request Timeout\r\nNats-Pending-Messages: 7\r\n\r\n"

Fields = tuple[bytes, int, bytes, bytes, bytes]


def fields(message: NatsMessage) -> Fields:
    return (message.subject, message.sid, message.reply, message.headers, message.data)


def frame(message: Fields) -> bytes:
    subject, sid, reply, headers, data = message
    middle = b" " + reply if reply else b""
    if headers:
        sizes = b"%d %d" % (len(headers), len(headers) + len(data))
        return b"HMSG %b %d%b %b\r\n%b%b\r\n" % (subject, sid, middle, sizes, headers, data)
    return b"MSG %b %d%b %d\r\n%b\r\n" % (subject, sid, middle, len(data), data)


WORDS = st.text("abcXYZ019._-*>$", min_size=1, max_size=20).map(str.encode)
MESSAGES = st.tuples(
    WORDS, st.integers(0, 10**6), st.just(b"") | WORDS, st.sampled_from([b"", STATUS]), st.binary(max_size=100)
)


@given(st.lists(MESSAGES, max_size=8), st.data())
def test_messages_are_found_whatever_the_pieces_they_come_in(messages: list[Fields], data: st.DataObject) -> None:
    stream = b"PING\r\n".join([b"INFO {}\r\n", *map(frame, messages)])
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    decoder = NatsDecoder()
    found: list[Fields] = []
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += map(fields, decoder.receive(stream[begin:end]))
    assert found == messages
    assert decoder.pings == len(messages)
    assert decoder.info == b"{}"


@given(st.binary(max_size=200), st.integers(0, 200))
def test_no_bytes_raise_anything_but_a_permanent_error(data: bytes, cut: int) -> None:
    decoder = NatsDecoder()
    try:
        decoder.receive(data[:cut])
        decoder.receive(data[cut:])
    except PermanentError:
        pass


def test_a_status_is_that_of_the_first_line_of_the_headers() -> None:
    message = NatsMessage(b"s", 1, b"", STATUS, b"")
    assert (message.status(), message.description()) == (b"408", b"Request Timeout")


def test_a_message_of_a_client_has_no_status() -> None:
    assert NatsMessage(b"s", 1, b"r", b"", b"NATS/1.0 100").status() == b""


def test_complaints_are_kept_without_their_quotes() -> None:
    decoder = NatsDecoder()
    decoder.receive(b"-ERR 'Authorization Violation'\r\n+OK\r\nPONG\r\n")
    assert decoder.errors == ["Authorization Violation"]
    assert decoder.pongs == 1


@pytest.mark.parametrize(
    "line",
    [
        b"HTTP/1.1 400 Bad Request\r\n",
        b"MSG a\r\n",
        b"MSG a 1 b c 5\r\nhello\r\n",
        b"MSG a one 5\r\nhello\r\n",
        b"MSG a 1 -5\r\n",
        b"MSG a 1 9999999999999999999\r\n",
        b"MSG a 1 67108865\r\n",
        b"HMSG a 1 9 5\r\nhello\r\n",
    ],
)
def test_what_is_no_frame_is_refused(line: bytes) -> None:
    with pytest.raises(PermanentError, match="NATS server"):
        NatsDecoder().receive(line)


def test_a_line_without_an_end_is_not_collected_for_ever() -> None:
    decoder = NatsDecoder()
    for _piece in range(64):
        decoder.receive(b"x" * 1024)
    with pytest.raises(PermanentError, match="more than 65536 bytes"):
        decoder.receive(b"x")


def test_a_large_payload_comes_in_pieces() -> None:
    payload = bytes(8 << 20)
    whole = frame((b"s", 1, b"", b"", payload))
    decoder = NatsDecoder()
    found = [message for at in range(0, len(whole), 65536) for message in decoder.receive(whole[at : at + 65536])]
    assert [message.data for message in found] == [payload]


def test_frames_for_a_server() -> None:
    assert publish_frame(b"a.b", b"", b"xy") == b"PUB a.b 2\r\nxy\r\n"
    assert publish_frame(b"a.b", b"r", b"") == b"PUB a.b r 0\r\n\r\n"
    assert subscribe_frame(b"a.>", 3) == b"SUB a.> 3\r\n"
    assert unsubscribe_frame(3) == b"UNSUB 3\r\n"
    assert connect_frame(b"{}") == b"CONNECT {}\r\n"
