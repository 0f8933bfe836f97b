"""Frames of the control socket: a length and a word in MessagePack.

    ┌────────────┬─────────────────────────────────────┐
    │ length u32 │ MessagePack: one word (`words.Word`)  │   big endian; the length counts what follows it
    └────────────┴─────────────────────────────────────┘

1. A frame has at most MAX_FRAME_BYTES. A longer one is refused by its length alone, before any of it is kept.
2. Bytes that are no frame raise PermanentError: the connection cannot go on, because the next frame cannot be found.
"""

from typing import Final, TypeVar

import msgspec

from holdfast.control.words import Word
from holdfast.model.errors import PermanentError

#: Snapshots of clients come in many frames, so none needs more.
MAX_FRAME_BYTES: Final = 1 << 20
_LENGTH_BYTES: Final = 4

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Word)

Body = TypeVar("Body")


def encode_frame(word: Word) -> bytes:
    """A frame. PermanentError if the word is too long for one."""
    data = _encoder.encode(word)
    if len(data) > MAX_FRAME_BYTES:
        raise PermanentError(f"a frame of {len(data)} bytes is longer than {MAX_FRAME_BYTES}")
    return len(data).to_bytes(_LENGTH_BYTES, "big") + data


def encode_body(body: msgspec.Struct) -> msgspec.Raw:
    """The body of a request, an answer or a push."""
    return msgspec.Raw(_encoder.encode(body))


def decode_body(body: bytes | msgspec.Raw, kind: type[Body]) -> Body:
    """A body as the struct that its word has. PermanentError says what is wrong with it.

    Fields that are not known are passed over: the peer may be newer.
    """
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        raise PermanentError(f"not a body of {kind.__name__}: {error}") from error


class FrameReader:
    """Cuts a stream of bytes into words. It keeps at most one frame that is not complete."""

    def __init__(self, limit_bytes: int = MAX_FRAME_BYTES) -> None:
        self._limit_bytes: Final = limit_bytes
        self._received: Final = bytearray()

    def feed(self, data: bytes) -> list[Word]:
        """The words that are complete now. PermanentError if the bytes are no frames of ours."""
        received = self._received
        received += data
        words: list[Word] = []
        start = 0
        while len(received) - start >= _LENGTH_BYTES:
            body = start + _LENGTH_BYTES
            length = int.from_bytes(received[start:body], "big")
            if length > self._limit_bytes:
                raise PermanentError(f"a frame of {length} bytes is announced; at most {self._limit_bytes} are taken")
            if len(received) < body + length:
                break
            start = body + length
            # A copy, because bodies are decoded later, and from the same bytes.
            words.append(_decode(bytes(received[body:start])))
        del received[:start]
        return words


def _decode(data: bytes) -> Word:
    try:
        word: Word = _decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise PermanentError(f"not a frame of the control socket: {error}") from error
    return word
