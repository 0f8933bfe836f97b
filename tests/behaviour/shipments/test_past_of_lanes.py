"""Messages of what was loaded, and of generations that were written again, are found by time as if the broker had
stored them itself.
"""

from pathlib import Path

import pytest

from holdfast.pipeline.relayout.plan import RelayoutJob
from holdfast.topics.filters import parse_filter
from tests.behaviour.shipments.test_relayout_editions import filled, relaid, tasks
from tests.disk_world import DiskWorld, publish
from tests.unit.history.past.questioner import Questioner
from tests.unit.pipeline.bulk_load.test_lane_plan import NOW_US, rows, take_all
from tests.unit.pipeline.local_load import shipped, stored

pytestmark = pytest.mark.slow


def check(folder: Path, text: str) -> int:
    """Both ways give what is stored, by time; how many there are."""
    topic_filter = parse_filter(text.encode())
    wanted = sorted(
        (position_us, serial, topic)
        for position_us, serial, topic, _payload in stored(folder)
        if topic_filter.matches(topic.encode())
    )
    with Questioner(folder) as ask:
        older = ask.pages("messages", "messages", filter=text, limit=7)
        newer = ask.pages("messages", "messages", filter=text, limit=7, direction="newer")
    assert older == newer[::-1]
    assert [one["at_us"] for one in newer] == [row[0] for row in wanted]
    found = sorted((one["at_us"], int(one["place"].split("/")[2]), one["topic"]["text"]) for one in newer)
    assert found == wanted
    return len(wanted)


@pytest.mark.parametrize("layout", ["paged", "learned", "timeline", "bitmask"])
def test_what_was_loaded_is_found_at_its_own_times(tmp_path: Path, layout: str) -> None:
    with DiskWorld(tmp_path, start_us=NOW_US) as world:
        world.tick(61)
        publish(world, ("plant/1/temp", b""), ("plant/2/temp", b""))
        world.settle()
        shipped(rows(), tmp_path, "a", NOW_US, layout=layout)
        take_all(world)
        world.tick(61)
    assert check(tmp_path, "#") == 52
    assert 0 < check(tmp_path, "+/1/#") < 52


@pytest.mark.parametrize("layout", ["learned", "bitmask", "paged"])
def test_another_edition_gives_the_same_messages(tmp_path: Path, layout: str) -> None:
    filled(tmp_path)
    texts = ("#", "plant/+/temp", "plant/3/temp")
    before = [check(tmp_path, text) for text in texts]
    with DiskWorld(tmp_path, start_us=NOW_US + 40_000_000) as world:
        (task,) = [one for one in tasks(RelayoutJob(tmp_path, layout)) if one.old.number == 1]
        relaid(tmp_path, task)
        take_all(world)
        assert [check(tmp_path, text) for text in texts] == before
