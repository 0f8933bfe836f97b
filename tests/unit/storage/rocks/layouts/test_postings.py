"""Posting blocks: their bytes, and what is read back from them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.durable.changes import Changes
from holdfast.model.errors import PermanentError
from holdfast.storage.rocks.layouts.postings import (
    BLOCK_POSITIONS,
    block_positions,
    candidates,
    encode_mark,
    posting_blocks,
    posting_prefix,
    read_counts,
    read_mark,
    read_posting,
)
from tests.unit.storage.rocks.layouts.store import Store

PREFIX = posting_prefix(b"streamid", 1, b"device-7")
increasing = st.lists(st.integers(0, 2**63 - 1), unique=True, max_size=60).map(sorted)


def test_the_bytes_of_a_block_never_change() -> None:
    assert PREFIX.hex() == "0273747265616d6964011b31ca4c27ee369c"
    blocks = list(posting_blocks(PREFIX, iter([[1_000]])))
    assert blocks == [(PREFIX + bytes.fromhex("00000000000003e8"), b"")]
    ((_key, value),) = posting_blocks(PREFIX, iter([[1_000, 1_001, 1_258]]))
    assert value.hex() == "04" + "01000000" + "02010000"
    ((_key, value),) = posting_blocks(PREFIX, iter([[0, 2**32]]))
    assert value.hex() == "08" + "0000000001000000"
    assert encode_mark(5, [(b"streamid", 3)]) == (b"\x03", bytes.fromhex("0500000000000000") + b"streamid\3" + bytes(7))


@given(increasing, st.integers(0, 70))
def test_positions_come_back_from_their_blocks(positions: list[int], cut: int) -> None:
    blocks = [block for block in posting_blocks(PREFIX, iter([positions[:cut], [], positions[cut:]])) if any(block)]
    assert [position for key, value in blocks for position in block_positions(key, value)] == positions


@pytest.mark.parametrize("pieces", [[9_000], [4_096, 4_904], [1, 8_999], [5_000, 4_000], [0, 9_000]])
def test_blocks_are_cut_by_count_however_the_positions_come(pieces: list[int]) -> None:
    """L10: so that a repeated cycle writes the same keys."""
    runs = []
    begin = 0
    for piece in pieces:
        runs.append(range(begin, begin + piece))
        begin += piece
    firsts = [block_positions(key, value)[0] for key, value in posting_blocks(PREFIX, iter(runs)) if key]
    assert firsts == [0, BLOCK_POSITIONS, 2 * BLOCK_POSITIONS]


@given(st.lists(increasing, min_size=1, max_size=4), st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))
def test_a_range_of_a_posting_is_exact(store: Store, cycles: list[list[int]], lo_us: int, hi_us: int) -> None:
    """L4: blocks that begin before the range reach into it; neighbours in the key order do not."""
    positions = sorted({position for cycle in cycles for position in cycle})
    family = store.new_family()
    changes = Changes()
    for stranger in (posting_prefix(b"streamid", 0, b"device-7"), posting_prefix(b"streamie", 1, b"device-7")):
        changes.into(family).put(stranger + bytes(8), b"")
    third = len(positions) // 3 + 1
    for begin in range(0, len(positions), third):
        for key, value in posting_blocks(PREFIX, iter([positions[begin : begin + third]])):
            changes.into(family).put(key, value)
    store.write(changes)
    found = list(read_posting(store.cells(family), PREFIX, lo_us, hi_us))
    store.drop(family)
    assert found == [position for position in positions if lo_us <= position < hi_us]


_rare = st.lists(st.lists(st.integers(0, 5_000), unique=True).map(sorted), min_size=1, max_size=3)


@given(_rare, st.sampled_from([[], [list(range(3_000))]]))
def test_candidates_contain_what_is_in_every_posting(rare: list[list[int]], common: list[list[int]]) -> None:
    postings = rare + common
    found = list(candidates([iter(posting) for posting in postings]))
    everywhere = set.intersection(*[set(posting) for posting in postings])
    assert found == sorted(found)
    assert everywhere <= set(found)
    assert len(found) <= max(map(len, postings))


def test_candidates_of_common_tokens_are_intersected() -> None:
    evens, threes = range(0, 9_000, 2), range(0, 9_000, 3)
    assert list(candidates([iter(evens), iter(threes)])) == list(range(0, 9_000, 6))


def test_a_damaged_block_is_named() -> None:
    with pytest.raises(PermanentError, match="width 3"):
        block_positions(PREFIX + bytes(8), b"\x03abc")
    with pytest.raises(PermanentError, match="6 bytes"):
        block_positions(PREFIX + bytes(8), b"\x04abcde")


def test_a_mark_and_its_counts_come_back(store: Store) -> None:
    family = store.new_family()
    assert read_mark(store.cells(family)) == -1
    assert read_counts(store.cells(family)) == []
    changes = Changes()
    changes.into(family).put(*encode_mark(12, [(b"streamid", 7), (bytes(8), 2**40)]))
    store.write(changes)
    assert read_mark(store.cells(family)) == 12
    assert read_counts(store.cells(family)) == [(b"streamid", 7), (bytes(8), 2**40)]
