"""The process that builds segments for a broker, out of the commit pages that it is sent. It opens no file.

    standard input    Pages …, StretchEnd   commit pages of one stretch, or pages of small segments, some at a time
    standard output   Pages …, Built        pages of its segment, some at a time, and what leads to them
                      Failed                if the pages are damaged

Each is a length, u32 little-endian, and that many bytes of MessagePack. The process ends with its standard input or
output, also in the middle of a frame: that is how it learns that the broker was killed.
"""

import os
import signal
import sys
from struct import Struct
from typing import BinaryIO, Final

import msgspec

from holdfast.durable.segment_patterns import StoredPatterns, learn_from_segment
from holdfast.durable.segments import build_segment
from holdfast.model.errors import PermanentError
from holdfast.records.pages.segment_index import encode_directory

#: So that the broker gets the processor first when both want it.
_NICE: Final = 10
LENGTH: Final = Struct("<I")


class Pages(msgspec.Struct, array_like=True, tag=1):
    """Pages, of which the first has a number."""

    first: int
    values: list[bytes]


class StretchEnd(msgspec.Struct, array_like=True, tag=2):
    """The stretch has no more pages. Patterns of topics are to be learnt from it if there are thresholds."""

    thresholds: list[int] = []
    #: Those that are known, as records.
    patterns: list[tuple[bytes, bytes]] = []


class Built(msgspec.Struct, array_like=True, tag=3):
    """All pages of the segment were sent."""

    first_us: int
    directory: bytes
    map: bytes
    #: Level, bucket and entries.
    index: list[tuple[int, int, bytes]]
    #: New patterns as records, and the messages of each stream.
    patterns: tuple[list[tuple[bytes, bytes]], list[tuple[bytes, int]]]


class Failed(msgspec.Struct, array_like=True, tag=4):
    """The stretch cannot become a segment."""

    why: str


Frame = Pages | StretchEnd | Built | Failed
_decoder: Final = msgspec.msgpack.Decoder(Frame)


def encode_frame(frame: Frame) -> bytes:
    content = msgspec.msgpack.encode(frame)
    return LENGTH.pack(len(content)) + content


def decode_frame(content: bytes) -> Frame:
    frame: Frame = _decoder.decode(content)
    return frame


def answers(values: list[bytes], end: StretchEnd) -> list[Frame]:
    """What is sent back for the pages of a stretch."""
    try:
        segment = build_segment(values)
    except PermanentError as damage:
        return [Failed(str(damage))]
    directory = segment.directory
    known = StoredPatterns(tuple(end.thresholds), end.patterns) if end.thresholds else None
    learnt = learn_from_segment(known, segment.messages_by_topic())
    built = Built(directory.first_us, encode_directory(directory), segment.map, segment.index, learnt)
    return [*[Pages(first, pages) for first, pages in segment.slices()], built]


def serve(source: BinaryIO, target: BinaryIO) -> None:
    """Build segments until the source ends."""
    values: list[bytes] = []
    while len(head := source.read(LENGTH.size)) == LENGTH.size:
        length = LENGTH.unpack(head)[0]
        content = source.read(length)
        if len(content) < length:
            return
        frame = decode_frame(content)
        if isinstance(frame, Pages):
            values += frame.values
        elif isinstance(frame, StretchEnd):
            for answer in answers(values, frame):
                target.write(encode_frame(answer))
            target.flush()
            values = []


def main() -> None:
    # Ctrl-C reaches both processes; the broker decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICE)
    try:
        serve(sys.stdin.buffer, sys.stdout.buffer)
    except ConnectionError:
        # The broker was killed. What is left in the buffer goes nowhere, and Python would complain about it at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
