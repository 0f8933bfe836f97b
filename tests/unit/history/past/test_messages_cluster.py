"""The past of a node in a cluster: shards with generations of their own, some of them gone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.topics.filters import parse_filter
from tests.unit.history.cluster_folder import NodeFolder, fill
from tests.unit.history.past.questioner import Questioner
from tests.unit.storage.rocks.vnodes.vnode_world import opened


@pytest.fixture(params=["paged", "timeline", "bitmask"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NodeFolder]:
    with opened(tmp_path) as engine:
        folder = NodeFolder(engine, request.param)
        fill(folder)
        yield folder
        folder.close()


@pytest.mark.parametrize("text", ["#", "a/+", "b/1", "audit/#"])
def test_messages_of_all_vnodes_come_in_the_order_of_time(folder: NodeFolder, text: str) -> None:
    wanted = [
        f"{shard}/{position_us}/{serial}"
        for position_us, shard, serial, topic in sorted((row[1], row[0], row[2], row[3]) for row in folder.rows)
        if parse_filter(text.encode()).matches(topic.encode())
    ]
    with Questioner(folder.engine.folder) as ask:
        assert [one["place"] for one in ask.pages("messages", "messages", filter=text, limit=9)] == wanted[::-1]
        newer = ask.pages("messages", "messages", filter=text, limit=9, direction="newer")
        assert [one["place"] for one in newer] == wanted


def test_zones_count_the_messages_of_all_vnodes(folder: NodeFolder) -> None:
    with Questioner(folder.engine.folder) as ask:
        zones = ask("zones")["zones"]
    assert sum(one["messages"] for one in zones) == len(folder.rows)


def test_a_generation_of_one_vnode_that_is_dropped_is_told(folder: NodeFolder) -> None:
    with Questioner(folder.engine.folder) as ask:
        first = ask("messages", limit=5)
        folder.drop(0, 1)
        folder.publish()
        refused = ask.refused("messages", cursor=first["next_cursor"])
        assert (refused.status, refused.code) == (410, "dropped")
        assert ask("messages")["lost_at_most"] > 0
        assert len(ask.pages("messages", "messages")) < len(folder.rows)
