"""Columns of the layout `paged` against `timeline`: the same rows, wherever commits and segments end.

A timeline stores each message alone, and its columns are made of message records.
"""

import tempfile
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from holdfast.durable.log import NO_END
from holdfast.durable.zones import Zone
from holdfast.history.columns import COLUMNS
from holdfast.history.reader.reader import HistoryReader, Part
from holdfast.storage.rocks.layouts.paged import SegmentSize
from holdfast.storage.rocks.log.erasure_file import erase
from holdfast.storage.rocks.log.segment_writer import SegmentWriter
from tests.unit.storage.rocks.layouts.test_paged import FILTERS, messages
from tests.unit.storage.rocks.log.store import Store, levels


def write(store: Store, sizes: list[int], random: Random) -> None:
    """Commits of these sizes: the same messages at the same positions with every layout."""
    for size in sizes:
        store.clock.advance(1_000_000)
        store.write(*messages(size, random, store.clock.wall_us()))
    store.settle()


def table(folder: Path, text: str, columns: list[str], bounds: tuple[float, float], rows: int) -> list[dict[str, Any]]:
    """The rows between two parts of the time, in order."""
    with HistoryReader.open(folder) as reader:
        (part,) = reader.parts(0, NO_END)
        first = reader.first(part)
        assert first is not None
        span_us = part.hi_us - first.position_us
        lo_us, hi_us = (first.position_us + int(bound * span_us) for bound in bounds)
        asked = Part(part.zone, part.shard, part.generation, lo_us, max(hi_us, lo_us + 1))
        found = list(
            reader.batches(asked, levels(text) if text else (), [*columns, "offset"], rows=rows, in_order=False)
        )
        assert all(0 < batch.num_rows <= rows for batch in found)
        return pa.Table.from_batches(found).sort_by("offset").to_pylist() if found else []


commits = st.lists(st.sampled_from([1, 1, 2, 7, 60, 300]), max_size=6)


@settings(max_examples=30)
@given(
    early=commits,
    late=commits,
    in_segment=st.sampled_from([5, 100, 400]),
    text=st.sampled_from(["", "", *FILTERS]),
    columns=st.lists(st.sampled_from([name for name in COLUMNS if name != "offset"]), unique=True),
    bounds=st.tuples(st.floats(0, 1), st.floats(0, 1)).map(sorted).map(tuple) | st.just((0.0, 1.0)),
    rows=st.sampled_from([3, 100, 16_384]),
    erased=st.booleans(),
    seed=st.integers(0, 1_000),
)
def test_columns_of_pages_are_those_of_a_timeline(
    early: list[int],
    late: list[int],
    in_segment: int,
    text: str,
    columns: list[str],
    bounds: tuple[float, float],
    rows: int,
    seed: int,
    *,
    erased: bool,
) -> None:
    """Early commits are in segments, as far as they fill them; late ones are not."""
    assume(early or late)
    with tempfile.TemporaryDirectory() as place:
        found = []
        for layout in ("paged", "timeline"):
            folder = Path(place) / layout
            store = Store(folder, default=Zone("default", layout=layout, store_qos0=True))
            random = Random(seed)
            write(store, early, random)
            if layout == "paged":
                SegmentWriter(store.log, SegmentSize(messages=in_segment)).write_all()
            write(store, late, random)
            if erased:
                hide(store)
            found.append(table(folder, text, columns, bounds, rows))
            store.close()
    assert found[0] == found[1]


def hide(store: Store) -> None:
    """One client up to the middle of what is there, and some topics up to its end."""
    positions = [message.position_us for message in store.written]
    middle_us, last_us = positions[len(positions) // 2], positions[-1]
    erase(store.folder, client="publisher-1", up_to={0: middle_us}, now_us=last_us, made_by="test")
    erase(store.folder, topic="plant/+/flow", up_to={0: last_us}, now_us=last_us, made_by="test")
