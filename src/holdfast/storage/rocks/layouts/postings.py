"""Postings: at which positions a stream has messages with a certain token at a certain varying level.

    key     0x02 | stream 8 | level u8 | fingerprint of the token 8 | first position 8      26 bytes
    value   empty                           just the first position
            width u8 | offset … offset      width 4 or 8: the other positions, as little-endian offsets from the first

1. Blocks of one posting do not overlap, and follow each other in time.
2. Up to the mark every message is in its postings. Blocks that begin after it belong to a cycle that a crash cut short;
   they are written again, under the same keys, by the next one. Readers do not look at them.

Two tokens with the same fingerprint share a posting, so its readers check the topics.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from operator import neg
from struct import Struct, pack, unpack
from typing import Final

from holdfast.durable.tails import POSITION
from holdfast.model.errors import PermanentError
from holdfast.storage.rocks.engine.scan import FamilyReader, check_end, get_one, open_cursor
from holdfast.storage.rocks.layouts.layout import MARKS, POSTINGS
from holdfast.topics.learned_ids import FINGERPRINT_BITS, fingerprint

#: Positions in one block: 16 KB at most in the usual width, read at once.
BLOCK_POSITIONS: Final = 4_096
#: A posting shorter than this is few messages.
_FEW: Final = 1_024
#: The mark before anything was indexed.
NOTHING_INDEXED: Final = -1

#: In the place of a block: nothing is to be written yet, and that was as much work as one.
NO_BLOCK: Final = (b"", b"")

_MARK: Final = Struct("<q")
_COUNT: Final = Struct("<8sQ")
_MAX_U32: Final = 2**32 - 1


def posting_prefix(stream: bytes, level: int, token: bytes, bits: int = FINGERPRINT_BITS) -> bytes:
    """What the keys of a posting begin with; `level` counts the stream's varying levels."""
    return POSTINGS + stream + bytes((level,)) + fingerprint(token, bits)


def posting_blocks(prefix: bytes, runs: Iterator[Sequence[int]]) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values for increasing positions, which come in pieces; `NO_BLOCK` for an empty one.

    Ensures: blocks are cut by count, from the first position on. So a cycle that repeats one that a crash cut short has
    the same keys (rule 2).
    """
    waiting: Sequence[int] = ()
    for run in runs:
        if not run:
            yield NO_BLOCK
            continue
        positions = [*waiting, *run] if waiting else run
        whole = len(positions) - len(positions) % BLOCK_POSITIONS
        for begin in range(0, whole, BLOCK_POSITIONS):
            yield _block(prefix, positions[begin : begin + BLOCK_POSITIONS])
        waiting = positions[whole:]
    if waiting:
        yield _block(prefix, waiting)


def _block(prefix: bytes, positions: Sequence[int]) -> tuple[bytes, bytes]:
    first = positions[0]
    key = prefix + POSITION.pack(first)
    if len(positions) == 1:
        return key, b""
    offsets = [position - first for position in positions]
    if offsets[-1] <= _MAX_U32:
        return key, pack(f"<B{len(offsets) - 1}I", 4, *offsets[1:])
    return key, pack(f"<B{len(offsets) - 1}Q", 8, *offsets[1:])


def block_positions(key: bytes, value: bytes) -> list[int]:
    """The positions of one block."""
    first: int = POSITION.unpack(key[-8:])[0]
    if not value:
        return [first]
    count, rest = divmod(len(value) - 1, value[0] or 1)
    if value[0] not in (4, 8) or rest:
        raise PermanentError(f"a posting block of {len(value)} bytes has width {value[0]}; 4 or 8 would be right")
    offsets = unpack(f"<{count}{'I' if value[0] == 4 else 'Q'}", value[1:])
    return [first, *[first + offset for offset in offsets]]


def read_posting(family: FamilyReader, prefix: bytes, lo_us: int, hi_us: int) -> Iterator[int]:
    """The positions of [lo, hi) in a posting, block by block."""
    if lo_us >= hi_us:
        return
    begin = prefix + POSITION.pack(lo_us)
    end = prefix + POSITION.pack(hi_us)
    cursor = open_cursor(family, end)
    cursor.seek_for_prev(begin)  # the block that begins before lo may reach beyond it
    if not cursor.valid() or not cursor.key().startswith(prefix):
        check_end(cursor)
        cursor.seek(begin)
    while cursor.valid():
        for position in block_positions(cursor.key(), cursor.value()):
            if lo_us <= position < hi_us:
                yield position
        cursor.next()
    check_end(cursor)


def read_posting_back(family: FamilyReader, prefix: bytes, lo_us: int, hi_us: int) -> Iterator[int]:
    """The same, the last position first."""
    if lo_us >= hi_us:
        return
    end = prefix + POSITION.pack(hi_us)
    cursor = open_cursor(family, end)
    cursor.seek_to_last()  # below `end`
    while cursor.valid() and cursor.key().startswith(prefix):
        positions = block_positions(cursor.key(), cursor.value())
        yield from [position for position in reversed(positions) if lo_us <= position < hi_us]
        if positions[0] < lo_us:
            return
        cursor.prev()
    check_end(cursor)


def candidates(postings: list[Iterator[int]], *, newest_first: bool = False) -> Iterator[int]:
    """Positions, in order, among which are all that are in every posting.

    A token that few messages have decides alone: reading the posting of a common one beside it would cost more than
    the few messages that it spares. Requires: the postings are in this order, too.
    """
    if len(postings) == 1:
        return postings[0]
    heads = [list(islice(posting, _FEW)) for posting in postings]
    short = [set(head) for head in heads if len(head) < _FEW]
    if short:
        return iter(sorted(set.intersection(*short), reverse=newest_first))
    whole: list[Iterator[int]] = [chain(head, posting) for head, posting in zip(heads, postings, strict=True)]
    if not newest_first:
        return _intersect(whole)
    return map(neg, _intersect([map(neg, posting) for posting in whole]))


def _intersect(postings: list[Iterator[int]]) -> Iterator[int]:
    """The numbers that are in all of the increasing sequences."""
    first, *others = postings
    heads = [next(other, None) for other in others]
    for candidate in first:
        everywhere = True
        for i, other in enumerate(others):
            head = heads[i]
            while head is not None and head < candidate:
                head = next(other, None)
            heads[i] = head
            if head is None:
                return
            if head != candidate:
                everywhere = False
                break
        if everywhere:
            yield candidate


def encode_mark(up_to_us: int, counts: list[tuple[bytes, int]]) -> tuple[bytes, bytes]:
    """The mark, and how many messages each stream had up to it: a statistic that would be costly to count again."""
    return MARKS, _MARK.pack(up_to_us) + b"".join([_COUNT.pack(stream, count) for stream, count in counts])


def decode_mark(value: bytes) -> int:
    """Up to where the mark says; its counts are not looked at."""
    if len(value) < _MARK.size or (len(value) - _MARK.size) % _COUNT.size:
        raise PermanentError(f"a mark has {len(value)} bytes; {_MARK.size} and {_COUNT.size} a stream would be right")
    return int(_MARK.unpack_from(value)[0])


def read_mark(family: FamilyReader) -> int:
    """The last position whose message is in the postings."""
    value = get_one(family, MARKS)
    return NOTHING_INDEXED if value is None else decode_mark(value)


def read_counts(family: FamilyReader) -> list[tuple[bytes, int]]:
    """Streams and their messages up to the mark."""
    value = get_one(family, MARKS)
    if value is None:
        return []
    decode_mark(value)
    return list(_COUNT.iter_unpack(value[_MARK.size :]))
