"""Streams of several shards become one in the order of time."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from holdfast.history.merging import merged_by_time


@st.composite
def streams(draw: st.DrawFn) -> list[list[list[int]]]:
    """For each shard its positions, cut into batches."""
    made: list[list[list[int]]] = []
    for _shard in range(draw(st.integers(0, 4))):
        positions = sorted(draw(st.sets(st.integers(1, 60), max_size=30)))
        cuts = sorted(draw(st.sets(st.integers(1, max(1, len(positions) - 1)), max_size=5)))
        pieces = [positions[i:j] for i, j in zip([0, *cuts], [*cuts, len(positions)], strict=True)]
        made.append([piece for piece in pieces if piece])
    return made


def batches(shard: int, pieces: list[list[int]]) -> Iterator[Any]:
    for piece in pieces:
        yield pa.record_batch(
            {"offset": pa.array(piece, pa.int64()), "shard": pa.array([shard] * len(piece), pa.uint16())}
        )


@given(streams())
def test_everything_comes_once_and_in_order(made: list[list[list[int]]]) -> None:
    merged = merged_by_time([batches(shard, pieces) for shard, pieces in enumerate(made)])
    got = [(row["offset"], row["shard"]) for batch in merged for row in batch.to_pylist()]
    assert got == sorted(
        (position, shard) for shard, pieces in enumerate(made) for piece in pieces for position in piece
    )


def test_a_stream_is_not_read_further_than_needed() -> None:
    """Memory is a batch for each stream: the second batch of one waits until the first is used up."""
    read: list[int] = []

    def counted() -> Iterator[Any]:
        for number in range(3):
            read.append(number)
            yield from batches(0, [[number * 10 + 5]])

    merged = merged_by_time([counted(), batches(1, [[1, 2, 3], [4]])])
    next(merged)
    assert read == [0]
