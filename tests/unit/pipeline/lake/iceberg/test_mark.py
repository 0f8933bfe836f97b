"""How far an Iceberg table is."""

import pytest

from holdfast.pipeline.lake.iceberg.mark import Mark, decode_mark
from holdfast.pipeline.source.offsets import Offset


def test_a_mark_is_stored_as_it_always_was() -> None:
    mark = Mark(3, {0: Offset(1_793_836_800_000_123, 51), 2: Offset(-1, 0)}, 51, 7)
    text = '{"claim": 3, "end": {"0": [1793836800000123, 51], "2": [-1, 0]}, "records": 51, "sequence": 7}'

    assert mark.encode() == text
    assert decode_mark(text) == mark


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no JSON",
        "[]",
        "7",
        "{}",
        '{"claim": 1, "end": 2}',
        '{"claim": 1, "end": {}, "records": "1", "sequence": 1}',
        '{"claim": 1, "end": {"x": [1, 2]}, "records": 1, "sequence": 1}',
    ],
)
def test_what_is_no_mark_is_not_taken_for_one(text: str) -> None:
    assert decode_mark(text) is None
