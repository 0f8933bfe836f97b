"""Keys by the time at which something is due: the look begins behind those that were removed."""

from pathlib import Path

from holdfast.durable.changes import Changes
from holdfast.storage.rocks.engine.due_keys import DueKeys
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.engine.family_slice import FamilySlice


def test_only_what_is_due_is_found_and_removed_keys_are_passed_over(tmp_path: Path) -> None:
    engine = Engine.open(tmp_path, reserve_bytes=0)
    engine.create_family("due")
    family = FamilySlice(engine, "due")
    due = DueKeys(b"")
    changes = Changes()
    for key in (b"3", b"1", b"5"):
        due.put(key)
        changes.into("due").put(key, b"")
    engine.write(1, changes)

    assert list(due.below(family.items, b"4", is_written=True)) == [b"1", b"3"]
    removed = Changes()
    removed.into("due").delete(b"1")
    engine.write(2, removed)
    assert list(due.below(family.items, b"4", is_written=True)) == [b"3"]
    assert due._first == b"3"
    due.put(b"0")
    assert due._first == b"0", "an earlier one that is not written yet is not passed over"
    assert list(due.below(family.items, b"9", is_written=False)) == [b"3", b"5"]
    assert due._first == b"0"
    engine.close()
