"""What holds for every layout: cost of a start, sizes of keys, laziness, streams that are new."""

from itertools import islice

import pytest

from holdfast.durable.changes import Changes
from holdfast.model.errors import SettingsError
from holdfast.records.messages import stored_position
from holdfast.storage.rocks.layouts.build import ALL_LAYOUTS, make_layout
from holdfast.storage.rocks.layouts.layout import NOTHING_YET
from tests.unit.storage.rocks.layouts.counting import CountingFamily
from tests.unit.storage.rocks.layouts.store import END_US, Log, Store, record

#: Small epochs, so that a log of a few thousand messages has many.
_BITMASK = [name for name in ALL_LAYOUTS if "bitmask" in name or name == "interleaved"]
PARAMETERS = {name: {"epoch_messages": 64} if name in _BITMASK else {} for name in ALL_LAYOUTS}

every_layout = pytest.mark.parametrize("name", ALL_LAYOUTS)


def topics(count: int) -> list[bytes]:
    return [b"plant/%d/temp" % (i % 30) for i in range(count)]


@every_layout
@pytest.mark.parametrize("text", ["plant/+/temp", "plant/25/temp", "#"])
def test_a_start_costs_the_same_in_a_short_log_and_in_a_long_one(store: Store, name: str, text: str) -> None:
    """L8: counted in cursor moves and gets, from the start of the read to its first three messages."""
    costs = []
    for length in (500, 4_000):
        log = Log(store, make_layout(name, PARAMETERS[name]))
        log.put(*topics(length))
        log.write_whole_index()
        cells = CountingFamily(log.cells)
        found = list(
            islice(filter(None, log.layout.read(cells, tuple(text.encode().split(b"/")), length - 150, END_US)), 3)
        )
        assert len(found) == 3
        costs.append(cells.moves + cells.gets)
        store.drop(log.family)
    short, long = costs
    # Epochs lie differently in the two logs, and so do messages in the last one.
    assert long <= short + 100


@every_layout
def test_a_read_begins_to_give_before_it_has_read_everything(store: Store, name: str) -> None:
    """L8"""
    log = Log(store, make_layout(name, PARAMETERS[name]))
    log.put(*topics(4_000))
    cells = CountingFamily(log.cells)
    assert stored_position(next(log.layout.read(cells, (b"#",), 0, END_US))) == 1
    assert cells.moves + cells.gets < 500


@pytest.mark.parametrize(
    ("name", "key_bytes"),
    [
        ("timeline", 9),
        ("learned", 17),
        ("indexed", 17 + 26),
        ("bitmask", 25),
        ("bitmask-zorder", 25),
        ("interleaved", 25),
    ],
)
def test_a_message_carries_a_small_key(name: str, key_bytes: int) -> None:
    """L18: what a commit puts for a message beside its value, once its pattern is known."""
    layout = make_layout(name, {})
    for i in range(30):
        layout.put(b"plant/%d/temp" % i, i, b"", Changes().into("log"))
    changes = Changes()
    layout.put(b"plant/29/temp", 100, b"\x01\x02", changes.into("log"))
    assert changes.size_bytes == key_bytes + 2


@every_layout
def test_a_stream_made_while_a_replay_runs_is_not_skipped(store: Store, name: str) -> None:
    """L19: a reader that goes on from its last position meets the new stream there."""
    log = Log(store, make_layout(name, PARAMETERS[name]))
    log.put(b"a/1", b"a/2")
    seen: list[int] = []
    for new in ([b"a/3", b"b"], [b"a/1", b"c/d/e"], [b"a/99"]):
        seen += log.read("#", seen[-1] + 1 if seen else 0, log.last_us + 1)
        log.put(*new)
    seen += log.read("#", seen[-1] + 1)
    assert seen == list(range(1, 8))


@every_layout
def test_what_is_not_written_yet_is_not_read(store: Store, name: str) -> None:
    """A commit that waits for the disk is invisible, and stays in order when it comes."""
    log = Log(store, make_layout(name, {}))
    log.put(*topics(40))
    pending = Changes()
    log.layout.put(b"plant/35/temp", 41, record(b"plant/35/temp", 41), pending.into(log.family))
    assert log.read("plant/35/temp") == []
    assert log.read("#") == list(range(1, 41))
    store.write(pending)
    assert log.read("plant/35/temp") == [41]


@every_layout
def test_an_empty_range_gives_nothing(store: Store, name: str) -> None:
    log = Log(store, make_layout(name, {}))
    assert log.read("#") == []
    log.put(b"a", b"b")
    assert log.read("#", 2, 2) == []
    assert log.read("#", 3, 1) == []
    assert log.read("#", -5, 2) == [1]


@every_layout
def test_a_layout_has_the_name_it_is_made_by(name: str) -> None:
    assert make_layout(name, {}).name == name


def test_what_cannot_be_made_is_refused_with_what_could() -> None:
    with pytest.raises(SettingsError, match="no layout 'wide'; there are timeline, learned"):
        make_layout("wide", {})
    with pytest.raises(SettingsError, match="bitmask has no parameter 'thresholds'; it has levels, bits"):
        make_layout("bitmask", {"thresholds": 3})
    with pytest.raises(SettingsError, match="cycle_messages is"):
        make_layout("learned", {"cycle_messages": (1,)})
    with pytest.raises(SettingsError, match="0 bits"):
        make_layout("interleaved", {"bits": 0})


@every_layout
def test_no_levels_read_everything(store: Store, name: str) -> None:
    """`$`-topics and the catch-all too: what copies or checks a log must not miss any."""
    log = Log(store, make_layout(name, PARAMETERS[name]))
    log.put(b"a", b"$own/x", b"a/b/c", b"/", b"x" * 2000, *topics(40))
    values = log.layout.read(log.cells, (), 0, END_US)
    assert [stored_position(value) for value in values if value] == list(range(1, 46))


@pytest.mark.parametrize("name", ["timeline", "learned"])
def test_a_long_stretch_without_a_match_can_be_left_and_taken_up_again(store: Store, name: str) -> None:
    """Topics that are too long to be learnt share a stream, which has to be looked through."""
    log = Log(store, make_layout(name, {}))
    log.put(*(b"x" * 2000 + b"%d" % (number % 7) for number in range(5_000)), b"y" * 2000)
    found = list(log.layout.read(log.cells, (b"y" * 2000, b"#"), 0, END_US))
    assert [stored_position(value) for value in found if value] == [5_001]
    assert found.count(NOTHING_YET) >= 4
