"""The optimizer: a change of traffic begins a new generation, noise does not, and settings say what is which."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from holdfast.durable.zones import Zone
from tests.unit.storage.rocks.log.store import SECOND_US, Store, places

#: The default of `optimize_interval_s`.
INTERVAL_S = 600
#: A generation begins some microseconds after the clock, behind the messages of the same moment.
MORE_S = INTERVAL_S + 1
#: Ten devices get streams of their own, and further ones share `fleet/+/temp`.
FLEET = [f"fleet/{number}/temp" for number in range(12)]
STEADY = [f"plant/{number}/temp" for number in range(300)]


def wait(store: Store, seconds: int) -> list[str]:
    """Let time pass, tick once, and say what was logged."""
    store.clock.advance(seconds * SECOND_US)
    with capture_logs() as lines:
        store.maintenance.tick()
    return [line["event"] for line in lines]


def generations(store: Store) -> int:
    return len(store.zone_log().live)


def patterns(store: Store) -> list[str]:
    learnt = store.zone_log().live[-1].by_shard[0].layout.learned()
    assert learnt is not None
    return sorted(pattern.text for pattern in learnt.patterns())


def settled(folder: Path, **settings: float) -> Store:
    """A store that knows its steady traffic: each message lies where the next generation would put it."""
    store = Store(folder, default=Zone("default", layout="learned", **settings))  # type: ignore[arg-type]
    store.publish(*STEADY)
    store.rotate()
    store.publish(*STEADY)
    assert patterns(store) == ["plant/+/temp"]
    return store


def test_a_planted_change_of_traffic_begins_a_new_generation_with_its_pattern(tmp_path: Path) -> None:
    """L9, L11: the change is more than half of what came, and every filter finds the same before and after."""
    store = settled(tmp_path / "data")
    before = generations(store)
    for _round in range(60):
        store.publish(*FLEET)
    assert wait(store, INTERVAL_S - 1) == []
    assert generations(store) == before, "not before the interval has passed"
    assert wait(store, 2) == ["topics follow other patterns", "generation begins"]
    assert generations(store) == before + 1
    assert patterns(store) == ["fleet/+/temp", "plant/+/temp"]
    store.publish(*FLEET)
    for text in ("#", "fleet/+/temp", "fleet/3/temp", "plant/7/temp"):
        assert places(store.read(text)) == places(store.expected(text))
    store.close()


def test_what_has_become_the_pattern_is_no_reason_for_another_generation(tmp_path: Path) -> None:
    store = settled(tmp_path / "data")
    for _round in range(60):
        store.publish(*FLEET)
    wait(store, MORE_S)
    before = generations(store)
    for _interval in range(5):
        store.publish(*FLEET, *STEADY)
        assert wait(store, MORE_S) == []
    assert generations(store) == before
    store.close()


def test_noise_begins_no_generation(tmp_path: Path) -> None:
    """New topics all the time, and most messages lie well: that is what every broker sees."""
    store = settled(tmp_path / "data")
    before = generations(store)
    for interval in range(6):
        store.publish(*STEADY, *[f"noise/{interval}/{number}" for number in range(3)], f"once/{interval}", *FLEET)
        assert wait(store, MORE_S) == []
    assert generations(store) == before
    store.close()


def test_a_shard_with_next_to_no_messages_does_not_decide_for_the_others(tmp_path: Path) -> None:
    store = Store(tmp_path / "data", default=Zone("default", shards=2, layout="learned"))
    quiet = next(name for name in ("a", "b", "c", "d", "e") if store.publish("x", publisher=name)[0].shard == 1)
    loud = next(name for name in ("f", "g", "h", "i", "j", "k") if store.publish("x", publisher=name)[0].shard == 0)
    store.publish(*STEADY, publisher=loud)
    store.rotate()
    store.publish(*STEADY, publisher=loud)
    before = generations(store)
    store.publish(*FLEET, publisher=quiet)
    assert wait(store, MORE_S) == []
    assert generations(store) == before
    store.close()


def test_the_gain_says_what_is_noise(tmp_path: Path) -> None:
    """The same messages, with another setting: one in fourteen would move to a wider pattern."""
    for gain, events in ((0.09, []), (0.05, ["topics follow other patterns", "generation begins"])):
        store = settled(tmp_path / str(gain), optimize_gain=gain)
        for _round in range(3):
            store.publish(*FLEET)
            store.publish(*STEADY[:24])
        assert wait(store, MORE_S) == events
        store.close()


@pytest.mark.parametrize("interval_s", [60, 3600])
def test_the_interval_is_how_often_it_looks_and_how_old_a_generation_has_to_be(tmp_path: Path, interval_s: int) -> None:
    store = settled(tmp_path / "data", optimize_interval_s=interval_s)
    for _round in range(60):
        store.publish(*FLEET)
    assert wait(store, interval_s - 1) == []
    store.rotate()  # by hand, for another reason
    for _round in range(60):
        store.publish(*[f"van/{number}/temp" for number in range(12)])
    before = generations(store)
    assert wait(store, 2) == []
    assert generations(store) == before, "the generation is too young"
    assert wait(store, interval_s) == ["topics follow other patterns", "generation begins"]
    store.close()


def test_an_interval_of_0_never_looks(tmp_path: Path) -> None:
    store = settled(tmp_path / "data", optimize_interval_s=0)
    for _round in range(60):
        store.publish(*FLEET)
    assert wait(store, 50_000) == []
    store.close()
