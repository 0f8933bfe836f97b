"""A wildcard among very many retained topics: a hundred thousand in CI, `HOLDFAST_RETAINED_TOPICS=1000000` by hand."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.durable.changes import Changes
from holdfast.durable.commit import Batch
from holdfast.durable.retained.retained_store import ScanBudget
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.topics.filters import parse_filter
from holdfast.wire.packets import Publish
from tests.disk_world import DiskWorld

pytestmark = pytest.mark.slow

TOPICS = int(os.environ.get("HOLDFAST_RETAINED_TOPICS", "100000"))
SENSORS = ("temp", *(f"s{number:02}" for number in range(1, 20)))
HALLS = TOPICS // len(SENSORS)
START_US = 1_700_000_000_000_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with so many retained topics, as a broker would have left it."""
    folder = tmp_path_factory.mktemp("many")
    with DiskWorld(folder) as world:
        for first in range(0, HALLS, 500):
            batch, changes = Batch(1), Changes()
            batch.retained.extend(
                Message(b"plant/%d/%s" % (hall, sensor.encode()), b"x", 1, ClientId("w"), START_US, retain=True)
                for hall in range(first, min(first + 500, HALLS))
                for sensor in SENSORS
            )
            world.disk.retained.add(batch, changes)
            world.disk.log.write_own(changes)
        world.settle()
        assert world.disk.retained.count() == TOPICS
    return folder


@pytest.fixture(scope="module")
def world(folder: Path) -> Iterator[DiskWorld]:
    with DiskWorld(folder, start_us=START_US + 1_000_000) as world:
        yield world


def scanned(world: DiskWorld, text: str, limit: int) -> tuple[int, int]:
    """How many messages a filter finds, at most `limit`, and how many keys that takes."""
    budget = ScanBudget(TOPICS * 10)
    scan = world.disk.retained.match(parse_filter(text.encode()), world.clock.wall_us())
    found = 0
    while found < limit and scan.next(budget) is not None:
        found += 1
    return found, TOPICS * 10 - budget.left


@pytest.mark.parametrize(
    ("text", "matching", "keys"),
    [
        ("plant/17/temp", 1, 1),
        ("plant/17/+", 20, 22),
        ("plant/17/#", 20, 22),
        ("plant/17/+/#", 20, 22),
        ("+/17/s07", 1, 4),
        ("nosuch/+", 0, 2),
        ("+/nosuch/#", 0, 3),
    ],
)
def test_a_wildcard_visits_what_can_match_and_not_all_topics(
    world: DiskWorld, text: str, matching: int, keys: int
) -> None:
    """M10: in keys visited, so that it is the same for a hundred thousand topics as for a million."""
    found, visited = scanned(world, text, TOPICS)
    assert found == matching
    assert visited <= keys


def test_a_level_in_the_middle_costs_a_jump_for_each_match_and_no_more(world: DiskWorld) -> None:
    """M10: one sensor of every hall; the other nineteen are jumped over."""
    found, visited = scanned(world, "plant/+/temp", 1000)
    assert found == 1000
    assert visited <= 2 * 1000 + 2 * 100


def test_a_new_subscriber_among_them_gets_its_messages_and_the_rest_stays_unread(world: DiskWorld) -> None:
    """M10"""
    reader = world.connect("reader")
    reader.subscribe("plant/4321/+", qos=1)
    found = reader.take_all(Publish)
    assert sorted(packet.topic for packet in found) == sorted(f"plant/4321/{sensor}" for sensor in SENSORS)
    assert all(packet.retain for packet in found)
    reader.drop()
