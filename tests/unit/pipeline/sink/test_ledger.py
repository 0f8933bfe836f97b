"""The ledger takes a repeated batch, and refuses one that differs."""

from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from holdfast.model.errors import PermanentError
from holdfast.pipeline.sink.ledger import Ledger, digest_rows
from holdfast.pipeline.sink.stream_writer import (
    PACKED,
)


def test_a_ledger_takes_the_same_rows_again_and_no_others(tmp_path: Path) -> None:
    rows = pa.array([b"a", b"bc"], PACKED)
    Ledger(str(tmp_path), "q").enter(3, 0, rows)
    Ledger(str(tmp_path), "q").enter(3, 0, rows)
    Ledger(str(tmp_path), "q").enter(4, 0, pa.array([b"other"], PACKED))
    Ledger(str(tmp_path), "other").enter(3, 0, pa.array([], PACKED))
    for others in ([b"bc", b"a"], [b"ab", b"c"], [b"a"], []):
        with pytest.raises(PermanentError, match=f"partition 0 of batch 3 had 2 rows .*now has {len(others)}"):
            Ledger(str(tmp_path), "q").enter(3, 0, pa.array(others, PACKED))
    assert digest_rows(rows) != digest_rows(pa.array([b"ab", b"c"], PACKED))


def test_a_ledger_notices_partitions_that_are_gone_and_forgets_old_batches(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path), "q")
    for batch in range(4):
        for partition in range(2):
            ledger.enter(batch, partition, pa.array([b"a"], PACKED))
        ledger.leave(batch, 2)
    assert sorted(folder.name for folder in (tmp_path / "q").iterdir()) == ["2", "3"]
    with pytest.raises(PermanentError, match="batch 3 was begun with 2 partitions or more, and ended with 1"):
        ledger.leave(3, 1)


def test_a_ledger_refuses_a_partition_that_a_finished_batch_did_not_have(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path), "q")
    rows = pa.array([b"a"], PACKED)
    ledger.enter(0, 0, rows)
    ledger.enter(0, 1, rows)
    ledger.leave(0, 2)
    with pytest.raises(PermanentError, match="batch 0 had 2 partitions when it was first written, and now has a part"):
        ledger.enter(0, 2, rows)
    ledger.enter(0, 1, rows)
    ledger.leave(0, 2)
