"""A reader beside a broker that starts: it takes its turn, and begins afresh."""

import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from holdfast.durable.changes import Changes
from holdfast.history.reader.secondary import Secondary
from holdfast.model.clock import ManualClock
from holdfast.model.errors import TransientError
from holdfast.storage.rocks.engine import open_lock
from holdfast.storage.rocks.engine.column_families import META
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.engine.open_lock import OPENING_NAME, lock_to_look, lock_to_open
from tests.unit.storage.rocks.log_node import Node


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path / "data", ManualClock(wall_us=1_700_000_000_000_000), shards=1)
    yield node
    node.log.close()


@pytest.fixture
def secondary(node: Node) -> Iterator[Secondary]:
    found = Secondary(node.folder)
    yield found
    found.close()


def test_it_follows_a_primary_that_runs_and_begins_afresh_with_one_that_was_started_anew(
    node: Node, secondary: Secondary
) -> None:
    node.fill(commits=2)
    assert secondary.catch_up() is False

    node.reopen()

    assert secondary.catch_up() is True
    assert list(secondary.family(META).keys())
    assert secondary.catch_up() is False


def test_a_catch_up_without_news_starts_no_threads(node: Node, secondary: Secondary) -> None:
    """Each question is a catch-up. A new thread touches pages of its stack, and those are counted."""
    node.fill(commits=2)
    assert secondary.catch_up() is False
    assert len(secondary.names()) > 3

    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _time in range(20):
        assert secondary.catch_up() is False
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 20 * 10


class _SlowToOpen(Secondary):
    """The primary does something after this one has listed the column families, and before it opens them."""

    meanwhile: ClassVar[list[Callable[[], None]]] = []

    def _list(self) -> tuple[list[str], bytes, int]:
        found = super()._list()
        if self.meanwhile:
            self.meanwhile.pop()()
        return found


@pytest.mark.parametrize("what", ["open", "catch up"])
def test_a_family_that_is_made_while_it_looks_is_there_with_what_refers_to_it(node: Node, what: str) -> None:
    """The first segment of a generation makes a family, and its mark tells readers to look there."""

    def make_family() -> None:
        node.log.engine.create_family("late")
        changes = Changes()
        changes.into(META).put(b"mark", b"look into late")
        changes.into("late").put(b"key", b"value")
        node.log.write_own(changes)

    node.fill(commits=1)
    if what == "open":
        _SlowToOpen.meanwhile.append(make_family)
    found = _SlowToOpen(node.folder)
    try:
        if what == "catch up":
            _SlowToOpen.meanwhile.append(make_family)
            assert found.catch_up() is True

        assert found.family(META).get(b"mark") == b"look into late"
        assert found.family("late").get(b"key") == b"value"
        assert found.catch_up() is False
    finally:
        found.close()


def test_nobody_looks_while_the_database_is_being_opened(
    node: Node, secondary: Secondary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_lock, "_LOOK_PATIENCE_S", 0.0)
    with lock_to_open(node.folder):
        with pytest.raises(TransientError, match="has been opening for"):
            secondary.catch_up()
        with pytest.raises(TransientError, match="has been opening for"):
            Secondary(node.folder)

    assert secondary.catch_up() is False


def test_looks_are_shared_and_an_opening_waits_for_them_but_not_for_ever(
    node: Node, secondary: Secondary, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = 0
    look = lock_to_look(node.folder)
    look.__enter__()

    def let_go(_seconds: float) -> None:
        nonlocal tries
        tries += 1
        if tries == 3:
            look.__exit__(None, None, None)

    monkeypatch.setattr("time.sleep", let_go)
    assert secondary.catch_up() is False, "beside another look"
    with lock_to_open(node.folder):
        assert tries == 3

    monkeypatch.setattr(open_lock, "_OPENER_PATIENCE_S", 0.0)
    with lock_to_look(node.folder), lock_to_open(node.folder):
        assert tries == 3


def test_a_folder_of_an_older_broker_has_no_turns(node: Node) -> None:
    (node.folder / OPENING_NAME).unlink()
    with lock_to_look(node.folder):
        assert not (node.folder / OPENING_NAME).exists()


def test_another_database_in_its_place_is_opened_though_its_files_have_the_same_names(tmp_path: Path) -> None:
    """A node of a cluster is installed from another one."""

    def make(name: str, value: bytes) -> Path:
        engine = Engine.open(tmp_path / name, reserve_bytes=0)
        changes = Changes()
        changes.into(META).put(b"who", value)
        engine.write(engine.written + 1, changes)
        engine.close()
        return tmp_path / name / "rocks"

    one, two = make("one", b"first"), make("two", b"second")
    assert (one / "CURRENT").read_bytes() == (two / "CURRENT").read_bytes()
    found = Secondary(tmp_path / "one")
    try:
        assert found.family(META).get(b"who") == b"first"
        one.rename(tmp_path / "replaced")
        two.rename(one)
        before = found.database
        assert found.catch_up() is True
        assert found.family(META).get(b"who") == b"second"
        assert found.database != before
        assert found.catch_up() is False
    finally:
        found.close()
