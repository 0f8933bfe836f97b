"""A generation that begins with patterns that somebody beside the broker has learnt."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.durable.zones import Zone
from holdfast.records.generations import Generation
from holdfast.storage.rocks.checking.verification import verify_folder
from holdfast.storage.rocks.log.next_patterns import FILE_NAME, mark_of, write_patterns
from holdfast.topics.learned import LearnedTopics
from tests.learned_dump import dump
from tests.unit.storage.rocks.log.store import Store, places, zone

#: More names than a level may have by itself, and a name beside a varying level.
GIVEN = ["fleet/+/gps", *[f"fleet/+/engine/{name}" for name in "abcdefghijkl"], "fleet/depot/gate"]
DEVICES = [f"fleet/d{n}/engine/a" for n in range(30)]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "data", default=Zone("default", layout="learned"))
    yield made
    made.close()


def learnt(store: Store, name: str = "default") -> LearnedTopics:
    topics = store.zone_log(name).live[-1].by_shard[store.zone_log(name).live[-1].record.shards[0]].layout.learned()
    assert topics is not None
    return topics


def texts(topics: LearnedTopics) -> list[str]:
    return sorted(pattern.text for pattern in topics.patterns())


def records(store: Store) -> list[Generation]:
    return [generation.record for generation in store.zone_log().live]


def test_a_running_broker_begins_a_generation_with_what_it_is_given(store: Store) -> None:
    """L9, L11: topics of the generation before stay where they are; those that follow take the given places."""
    old = store.publish(*DEVICES)
    before = dump(learnt(store))
    write_patterns(store.folder, {"default": GIVEN})
    store.maintenance.tick()
    assert [record.number for record in records(store)] == [1, 2]
    assert records(store)[-1].parameters["patterns"] == mark_of([text.encode() for text in GIVEN])
    assert texts(learnt(store)) == sorted(GIVEN)
    new = store.publish(*DEVICES, "fleet/depot/gate", "fleet/d3/gps")
    assert texts(learnt(store)) == sorted(GIVEN), "no topic of these patterns needs a stream of its own"
    store.maintenance.tick()
    assert len(records(store)) == 2, "what the generation has already begins nothing"
    store.index()
    store.reopen()
    assert len(records(store)) == 2
    assert places(store.read("#")) == places([*old, *new])
    assert places(store.read("fleet/d3/#")) == places(store.expected("fleet/d3/#"))
    first = store.zone_log().live[0].by_shard[0]
    first.layout.load(store.engine.family(first.family))
    topics = first.layout.learned()
    assert topics is not None
    assert [line.split(" * ")[0] for line in dump(topics).splitlines()] == [
        line.split(" * ")[0] for line in before.splitlines()
    ]


def test_what_is_given_is_there_after_a_crash_before_the_first_message(store: Store) -> None:
    """L10: it is stored with the generation, and its names are not merged by the next one."""
    store.publish(*DEVICES)
    write_patterns(store.folder, {"default": GIVEN})
    store.rotate()
    store.reopen()
    assert texts(learnt(store)) == sorted(GIVEN)
    store.publish(*[f"fleet/d{n}/engine/{name}" for n in range(30) for name in "abcdefghijkl"])
    assert learnt(store).gain() == 0.0, "nothing would be better in a new generation"
    store.rotate()
    assert texts(learnt(store)) == sorted(GIVEN)


def test_what_led_the_broker_astray_is_not_inherited(store: Store) -> None:
    """L11: topics of chance came first, so it took the fleet for a value of the first level."""
    store.publish(*[f"x{n}" for n in range(30)], *DEVICES)
    assert "+/+/engine/a" in texts(learnt(store))
    write_patterns(store.folder, {"default": GIVEN})
    store.maintenance.tick()
    assert texts(learnt(store)) == sorted([*GIVEN, "+"])


def test_what_the_broker_learns_besides_is_inherited(store: Store) -> None:
    """L11: from generation to generation, together with what is given."""
    write_patterns(store.folder, {"default": GIVEN})
    store.maintenance.tick()
    store.publish(*DEVICES, *[f"lab/{n}/light" for n in range(30)])
    store.rotate()
    assert texts(learnt(store)) == sorted([*GIVEN, "lab/+/light"])


def test_a_file_that_is_wrong_leaves_everything_as_it_is(store: Store) -> None:
    store.publish(*DEVICES)
    (store.folder / FILE_NAME).write_text('{"version": 1, "zones": {"default": ["fleet/#"]}}')
    store.maintenance.tick()
    assert len(records(store)) == 1
    store.rotate()
    assert texts(learnt(store)) == ["fleet/+/engine/a"], "what was learnt here goes on"
    assert "patterns" not in records(store)[-1].parameters


def test_a_generation_goes_on_when_the_file_is_gone(store: Store) -> None:
    write_patterns(store.folder, {"default": GIVEN})
    store.maintenance.tick()
    (store.folder / FILE_NAME).unlink()
    store.reopen()
    store.maintenance.tick()
    assert len(records(store)) == 2
    assert texts(learnt(store)) == sorted(GIVEN)


def test_a_stopped_broker_finds_them_when_it_starts(tmp_path: Path) -> None:
    """And nothing is wrong with what it makes of them."""
    store = Store(tmp_path / "data", default=Zone("default", layout="learned"))
    store.publish(*DEVICES)
    write_patterns(store.folder, {"default": GIVEN})
    store.reopen()
    assert texts(learnt(store)) == sorted(GIVEN)
    store.reopen()
    assert len(records(store)) == 2
    store.close()
    assert verify_folder(store.folder).is_sound
    store = Store(tmp_path / "data", default=Zone("default", layout="learned"))
    store.publish(*DEVICES, "fleet/depot/gate")
    store.index()
    store.close()
    assert verify_folder(store.folder).is_sound


def test_zones_have_their_own_and_layouts_that_do_not_learn_have_none(tmp_path: Path) -> None:
    press = zone("press", "press/#", layout="learned")
    store = Store(tmp_path / "data", press, default=Zone("default", layout="timeline"))
    write_patterns(store.folder, {"default": ["a/+"], "press": ["press/+/x"], "gone": ["b/+"]})
    store.maintenance.tick()
    assert [len(log.live) for log in store.log.zone_logs.values()] == [1, 2]
    assert texts(learnt(store, "press")) == ["press/+/x"]
    store.close()
