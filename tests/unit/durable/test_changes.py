"""Changes: kept, counted, in order."""

from holdfast.durable.changes import Changes, RangeEnd


def test_changes_of_a_family_keep_their_order() -> None:
    changes = Changes()
    log = changes.into("log")
    log.put(b"a", b"1")
    log.delete(b"a")
    changes.into("log").put(b"a", b"2")
    [(name, family)] = changes.families()
    assert name == "log"
    assert family.operations == [(b"a", b"1"), (b"a", None), (b"a", b"2")]


def test_length_and_size_count_every_family() -> None:
    changes = Changes()
    assert (len(changes), changes.size_bytes) == (0, 0)
    changes.into("log").put(b"key", b"value")
    changes.into("meta").delete(b"k")
    changes.into("meta").delete_range(b"aa", b"zzz")
    assert len(changes) == 3
    assert changes.size_bytes == 8 + 1 + 5


def test_a_range_is_not_mistaken_for_a_value() -> None:
    changes = Changes()
    changes.into("log").delete_range(b"a", b"b")
    [(_, family)] = changes.families()
    [(lo, end)] = family.operations
    assert lo == b"a"
    assert isinstance(end, RangeEnd)
    assert end.key == b"b"
