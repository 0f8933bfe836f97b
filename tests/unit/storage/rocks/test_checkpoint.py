"""Checkpoints of a database in use, and a swap that may be killed at any step."""

import threading
from pathlib import Path

import pytest

from holdfast.durable.changes import Changes
from holdfast.model.errors import PermanentError
from holdfast.storage.rocks.checkpoint import (
    CHECKPOINTS_NAME,
    STAGING_NAME,
    complete_installation,
    create_checkpoint,
    find_installation,
    note_staged,
    want_installation,
)
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.engine.scan import scan_items

STEPS = ["install.moved", "install.swapped", "install.cleaned"]


class KilledError(Exception):
    """The process is gone."""


def put(engine: Engine, *keys: bytes) -> None:
    changes = Changes()
    for key in keys:
        changes.into("a").put(key, key)
        changes.into("b").put(key, key)
    engine.write(engine.written + 1, changes)


def opened(folder: Path) -> Engine:
    engine = Engine.open(folder, reserve_bytes=0)
    for name in ("a", "b"):
        if name not in engine.families():
            engine.create_family(name)
    return engine


def keys(engine: Engine) -> list[bytes]:
    found = [[key for key, _value in scan_items(engine.family(name), b"", b"\xff")] for name in ("a", "b")]
    assert found[0] == found[1], "a batch is in both families, or in none"
    return found[0]


def staged(folder: Path, source: Path) -> None:
    """The old database of a folder has `old`, and what is installed has `new`."""
    with_new = opened(source)
    put(with_new, b"new")
    old = opened(folder)
    put(old, b"old", b"older")
    old.sync_now()
    (folder / STAGING_NAME).mkdir()
    create_checkpoint(with_new, folder / STAGING_NAME / "rocks")
    old.close()
    with_new.close()
    for name in ("folder-id", "nats"):
        (folder / name).write_text("this node's own")


def test_a_checkpoint_of_a_database_that_is_written_meanwhile_has_whole_batches(tmp_path: Path) -> None:
    """Q: two families are written by one batch, and a checkpoint has both parts of it."""
    engine = opened(tmp_path / "node")
    stop = threading.Event()
    made = 0

    def make() -> None:
        nonlocal made
        for number in range(5):
            create_checkpoint(engine, tmp_path / f"checkpoint-{number}")
            made += 1
        stop.set()

    maker = threading.Thread(target=make)
    maker.start()
    number = 0
    while not stop.is_set() and number < 1_000_000:
        number += 1
        put(engine, b"%09d" % number)
    maker.join()
    engine.close()
    assert made == 5
    last = 0
    for at in range(5):
        folder = tmp_path / f"installed-{at}"
        folder.mkdir()
        (tmp_path / f"checkpoint-{at}").rename(folder / "rocks")
        found = opened(folder)
        assert not found.damage
        assert keys(found) == [b"%09d" % one for one in range(1, len(keys(found)) + 1)], "without a gap"
        assert len(keys(found)) >= last
        last = len(keys(found))
        found.close()


@pytest.mark.parametrize("killed_at", ["", *STEPS])
def test_a_swap_that_was_killed_is_completed_by_the_next_start(tmp_path: Path, killed_at: str) -> None:
    """A13."""
    node = tmp_path / "node"
    staged(node, tmp_path / "source")
    note_staged(node, "the log was trimmed")

    def reached(step: str) -> None:
        if step == killed_at:
            raise KilledError

    if killed_at:
        with pytest.raises(KilledError):
            complete_installation(node, reached)
    assert complete_installation(node)
    assert not complete_installation(node), "once"
    assert sorted(path.name for path in node.iterdir() if "lock" not in path.name) == ["folder-id", "nats", "rocks"]
    engine = opened(node)
    assert keys(engine) == [b"new"]
    assert engine.damage == []
    engine.close()


def test_a_database_that_differed_from_others_is_kept(tmp_path: Path) -> None:
    node = tmp_path / "node"
    staged(node, tmp_path / "source")
    want_installation(node, "its tables differ", keep_replaced=True)
    assert not complete_installation(node), "nothing is staged yet"
    note_staged(node, "its tables differ")
    assert complete_installation(node)
    (kept,) = (node / "quarantine").iterdir()
    aside = tmp_path / "aside"
    aside.mkdir()
    kept.rename(aside / "rocks")
    engine = opened(aside)
    assert keys(engine) == [b"old", b"older"]
    engine.close()


def test_checkpoints_of_an_earlier_run_are_removed(tmp_path: Path) -> None:
    (tmp_path / CHECKPOINTS_NAME / "ab").mkdir(parents=True)
    assert not complete_installation(tmp_path)
    assert not (tmp_path / CHECKPOINTS_NAME).exists()
    assert not complete_installation(tmp_path / "missing")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ('{"version": 2}', "version 2"),
        ("noise", "cannot be read"),
        ('{"version": 1, "step": "other", "why": "", "keep_replaced": false}', "its step is 'other'"),
        ('{"version": 1}', "cannot be read"),
    ],
)
def test_a_step_that_cannot_be_read_is_named(tmp_path: Path, content: str, why: str) -> None:
    (tmp_path / "install.json").write_text(content)
    with pytest.raises(PermanentError, match=why):
        find_installation(tmp_path)
