"""`verify` on the folder of a node in a cluster: everything is read, and what is planted is found."""

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.durable.changes import Changes
from holdfast.records.cluster import vnode_keys
from holdfast.records.cluster.items import Border, Claim
from holdfast.records.cluster.rows import CLOCK_KEY
from holdfast.records.generations import family_name
from holdfast.records.meta_keys import head_key
from holdfast.records.positions import ShardHead, encode_head
from holdfast.storage.rocks.checking.verification import verify_folder
from holdfast.storage.rocks.engine.column_families import CLUSTER
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.engine.scan import scan_items
from holdfast.storage.rocks.layouts.layout import MESSAGES, POSTINGS
from tests.unit.durable.state_machine.vnode import message
from tests.unit.storage.rocks.vnodes.vnode_world import Logs, Node, opened, shard_of

Plant = Callable[[Engine, Changes], None]


def fill(folder: Path) -> None:
    """Two vnodes, a zone with two generations, retained messages, sessions, a claim with a version."""
    logs = Logs()
    for vnode in (0, 1):
        for number in range(5):
            logs.write(vnode, message(topic=b"plant/%d" % number, retain=number == 1))
        logs.write(vnode, Border("default", 2, "paged", {}))
        logs.write(vnode, message(payload=b"later"), message(payload=b"last"))
        logs.write(vnode, Claim("newcomer", 7, (1, 1, 1), 0))
    with opened(folder) as engine:
        Node(engine).catch_up(logs)


def test_a_sound_folder_is_read_to_the_last_message(tmp_path: Path) -> None:
    fill(tmp_path)
    report = verify_folder(tmp_path)
    assert report.problems == []
    assert report.messages == 14
    assert report.keys > 30


def remove_page(engine: Engine, changes: Changes) -> None:
    name = family_name(shard_of(1), 1)
    pages = [key for key, _value in scan_items(engine.family(name), MESSAGES, POSTINGS)]
    changes.into(name).delete(pages[2])


def move_head(_engine: Engine, changes: Changes) -> None:
    prefix = vnode_keys.table_prefix(0, vnode_keys.META)
    changes.into(CLUSTER).put(prefix + head_key(shard_of(0)), encode_head(ShardHead(1 << 60, 99, 9)))


def cut_row(engine: Engine, changes: Changes) -> None:
    key = vnode_keys.table_prefix(1, vnode_keys.STATE) + CLOCK_KEY
    value = engine.family(CLUSTER).get(key)
    assert value is not None
    changes.into(CLUSTER).put(key, value[:-1])


def add_stranger(_engine: Engine, changes: Changes) -> None:
    changes.into(CLUSTER).put(vnode_keys.table_prefix(1, vnode_keys.SESSIONS) + b"\x7fwhat", b"?")


@pytest.mark.parametrize(
    ("plant", "where"),
    [(remove_page, "log-"), (move_head, "log-"), (cut_row, CLUSTER), (add_stranger, CLUSTER)],
    ids=["a page is missing", "the head is wrong", "a row is cut", "a row of no kind"],
)
def test_what_is_planted_is_found(tmp_path: Path, plant: Plant, where: str) -> None:
    fill(tmp_path)
    with opened(tmp_path) as engine:
        changes = Changes()
        plant(engine, changes)
        engine.write(engine.written + 1, changes)
    problems = verify_folder(tmp_path).problems
    assert problems
    assert any(problem.where.startswith(where) or "shard" in problem.where for problem in problems)
