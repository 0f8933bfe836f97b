"""Leases and erasures of a cluster: what a job tells one node is in the files of all of them."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from holdfast.durable.erasures import Erasure, Erasures
from holdfast.durable.state_machine.job_records import MAX_ITEM_BYTES, all_leases
from holdfast.model.clock import ManualClock
from holdfast.model.errors import PermanentError
from holdfast.node.cluster.cluster_jobs import ClusterJobs, JobItem
from holdfast.storage.rocks.log.erasure_file import FILE_NAME, erase, read_erasures
from holdfast.storage.rocks.log.leases import read_leases, remove_lease, renew_lease
from tests.unit.durable.state_machine.test_job_records import JobLog
from tests.unit.durable.state_machine.vnode import T


class Node:
    """A node with a data folder. All nodes have the same tables of the control log, and are level with it."""

    def __init__(self, log: JobLog, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.hidden: list[Erasures] = []
        self.told: list[Erasure] = []
        self.proposed: list[JobItem] = []
        self.clock = ManualClock()
        self._log = log
        self.jobs = ClusterJobs(folder, log.tables, self._propose, self.hidden.append, self.told.append, self.clock)

    def _propose(self, items: Iterable[JobItem]) -> None:
        for item in items:
            self.proposed.append(item)
            self._log.tell(item)

    def leases(self) -> dict[str, dict[int, int]]:
        return {lease.name: lease.positions for lease in read_leases(self.folder)}

    def erased(self) -> list[tuple[str, dict[int, int]]]:
        return [(erasure.what, erasure.up_to) for erasure in read_erasures(self.folder)]


def play(tmp_path: Path, act: Callable[[JobLog, Node, Node], Awaitable[None]]) -> None:
    async def within() -> None:
        log = JobLog()
        await act(log, Node(log, tmp_path / "a"), Node(log, tmp_path / "b"))

    asyncio.run(within())


async def look(*nodes: Node) -> None:
    """Each of them, as often as it takes to settle."""
    for _second in range(3):
        for node in nodes:
            await node.jobs.look()


def test_a_lease_that_a_job_writes_beside_one_node_holds_on_all(tmp_path: Path) -> None:
    async def act(_log: JobLog, one: Node, two: Node) -> None:
        renew_lease(one.folder, "lake", {0: 5, 1: 7}, T)
        await look(one, two)
        assert one.leases() == two.leases() == {"lake": {0: 5, 1: 7}}
        renew_lease(two.folder, "lake", {0: 9}, T + 1)
        await look(one, two)
        assert one.leases() == two.leases() == {"lake": {0: 9}}
        proposed = len(one.proposed) + len(two.proposed)
        await look(one, two)
        assert len(one.proposed) + len(two.proposed) == proposed == 2

    play(tmp_path, act)


def test_a_lease_that_is_removed_beside_one_node_is_removed_on_all_and_stays_so(tmp_path: Path) -> None:
    async def act(log: JobLog, one: Node, two: Node) -> None:
        renew_lease(one.folder, "lake", {0: 5}, T)
        await one.jobs.look()
        await two.jobs.look()
        assert remove_lease(two.folder, "lake"), "at once, before its node has looked again"
        await look(two, one)
        assert one.leases() == two.leases() == {}
        assert all_leases(log.tables)["lake"].is_removed
        await look(one, two)
        assert one.leases() == {}
        away = Node(log, tmp_path / "c")
        renew_lease(away.folder, "lake", {0: 4}, T)
        await look(away)
        assert away.leases() == {}, "an older word does not bring it back"

    play(tmp_path, act)


def test_a_node_that_starts_without_the_file_gets_it_again(tmp_path: Path) -> None:
    async def act(log: JobLog, one: Node, _two: Node) -> None:
        renew_lease(one.folder, "lake", {0: 5}, T)
        await look(one)
        remove_lease(one.folder, "lake")
        again = Node(log, one.folder)
        await look(again)
        assert again.leases() == {"lake": {0: 5}}, "it may have been killed before it had the file"

    play(tmp_path, act)


def test_an_erasure_hides_on_all_nodes_and_is_told_once(tmp_path: Path) -> None:
    async def act(log: JobLog, one: Node, two: Node) -> None:
        erase(one.folder, client="meter", up_to={0: 5}, now_us=T, made_by="ops@host")
        await look(one, two)
        assert one.erased() == two.erased() == [("client meter", {0: 5})]
        for node in (one, two):
            assert node.hidden[-1].hides(0, 5, b"t", "meter")
            assert [erasure.what for erasure in node.told] == ["client meter"]
        erase(two.folder, client="meter", up_to={1: 3}, now_us=T + 1, made_by="ops@host")
        erase(two.folder, topic="plant/#", up_to={0: 9}, now_us=T + 2, made_by="ops@host")
        await look(one, two)
        assert sorted(one.erased()) == [("client meter", {0: 5, 1: 3}), ("topics plant/#", {0: 9})]
        again = Node(log, one.folder)
        assert again.hidden[0].hides(0, 9, b"plant/1", "x"), "before any reader is served"
        assert again.told == []

    play(tmp_path, act)


def test_files_that_cannot_be_read_are_said_once_and_hide_what_is_known(tmp_path: Path) -> None:
    async def act(log: JobLog, one: Node, _two: Node) -> None:
        erase(one.folder, client="meter", up_to={0: 5}, now_us=T, made_by="ops@host")
        await look(one)
        (one.folder / FILE_NAME).write_text("{")
        with capture_logs() as lines:
            await look(one)
        assert [line["event"] for line in lines if line["log_level"] == "error"] == [
            "leases and erasures of jobs cannot be read or written, and wait"
        ]
        assert one.hidden[-1].hides(0, 5, b"t", "meter")
        with pytest.raises(PermanentError, match="is damaged"):
            Node(log, one.folder)

    play(tmp_path, act)


def test_what_is_too_large_for_the_cluster_is_said_and_does_not_hold_up_the_rest(tmp_path: Path) -> None:
    async def act(_log: JobLog, one: Node, two: Node) -> None:
        erase(one.folder, topic="x" * MAX_ITEM_BYTES, up_to={0: 5}, now_us=T, made_by="ops@host")
        erase(one.folder, topic="short", up_to={0: 5}, now_us=T, made_by="ops@host")
        with capture_logs() as lines:
            await look(one, two)
        assert [what for what, _up_to in two.erased()] == ["topics short"]
        said = [line for line in lines if line["event"] == "a lease or an erasure holds on this node alone"]
        assert len(said) == 1

    play(tmp_path, act)
