"""`holdfast cluster`, and nodes that join a cluster, on real NATS servers."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

import holdfast
from holdfast.cluster.administration import init_cluster, read_status
from holdfast.cluster.membership.membership import Membership, NodeProfile, control_applier
from holdfast.cluster.node_cluster import ClusterConnection, open_cluster
from holdfast.durable.state_machine.tables import MemoryTables
from holdfast.model.errors import SettingsError, TransientError
from holdfast.node.cluster.cluster_options import cluster_options
from holdfast.node.settings.tree import Settings, ZoneSettings
from holdfast.node.system_clock import SystemClock
from holdfast.records.cluster.control import Beat, VnodeProgress
from holdfast.records.cluster.control_rows import FoundedRow
from tests.cluster.cluster_settings import ClusterFolder
from tests.cluster.nats_world import NatsWorld
from tests.unit.cluster.member_world import Notes
from tests.unit.durable.state_machine.control_log import id_of

pytestmark = pytest.mark.slow

CLOCK = SystemClock()


@pytest.fixture
def folder(nats_servers: NatsWorld, tmp_path: Path) -> ClusterFolder:
    return ClusterFolder(nats_servers, tmp_path)


class Done(NamedTuple):
    """A command that has ended."""

    exit_code: int
    stdout: str
    output: str


def run(*arguments: str) -> Done:
    """`holdfast cluster`, in a process of its own: the nodes of a test log in this one."""
    command = (sys.executable, "-c", "from holdfast.cli.main import main; main()", "cluster", *arguments)
    environment = {**os.environ, "PYTHONPATH": str(Path(holdfast.__file__).resolve().parents[1])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    return Done(done.returncode, done.stdout, done.stdout + done.stderr)


class RunningNode(Notes):
    """A member over NATS, without a broker; a test waits for its beats."""

    def __init__(self, connection: ClusterConnection, node: int) -> None:
        super().__init__()
        self.beats = asyncio.Semaphore(0)
        self.tables = MemoryTables()
        cluster_id = connection.founded.cluster_id
        profile = NodeProfile(node, f"n{node}", id_of(node), addresses=(("mqtt", f"10.0.0.{node}:1883"),))
        self.membership = Membership(
            connection.control,
            cluster_id,
            self.tables,
            profile,
            self,
            self._beat,
            CLOCK,
            asyncio.get_running_loop(),
        )
        self.applier = control_applier(connection.control, cluster_id, self.tables, self.membership)

    def _beat(self) -> Beat:
        self.beats.release()
        return Beat((VnodeProgress(0, 7, 6), VnodeProgress(1, 5, 5)), lag_ms=1500, connections=3, ready=True)


@asynccontextmanager
async def running(settings: Settings, node: int) -> AsyncIterator[RunningNode]:
    async with open_cluster(cluster_options(settings), CLOCK) as connection:
        member = RunningNode(connection, node)
        task = asyncio.create_task(member.applier.run())
        member.membership.start()
        try:
            # The first beat was applied when the second is written.
            async with asyncio.timeout(30):
                await member.beats.acquire()
                await member.beats.acquire()
            yield member
        finally:
            member.membership.close()
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


def test_init_founds_a_cluster_once_and_status_tells_that_no_node_has_joined(folder: ClusterFolder) -> None:
    before = run("status", *folder.arguments())
    assert before.exit_code == 1, before.output
    assert "holdfast cluster init" in before.output
    first = run("init", *folder.arguments())
    assert first.exit_code == 0, first.output
    assert "founded" in first.output
    assert "2 vnodes, 3 streams made" in first.output
    second = run("init", *folder.arguments(node=2))
    assert second.exit_code == 0, second.output
    assert "was there already" in second.output
    assert first.output.split("id ")[1].split(",")[0] == second.output.split("id ")[1].split(",")[0]
    status = run("status", *folder.arguments())
    assert status.exit_code == 0, status.output
    assert "no node has joined" in status.output
    ready = run("status", "--ready", *folder.arguments())
    assert ready.exit_code == 1
    assert "no node has joined" in ready.output


def test_commands_without_a_cluster_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for command in ("init", "status"):
        done = run(command)
        assert done.exit_code == 2
        assert "cluster.name is not set" in done.output


def test_wrong_credentials_and_other_settings_than_the_clusters_are_refused(folder: ClusterFolder) -> None:
    options = cluster_options(folder.settings())
    asyncio.run(init_cluster(options, CLOCK))
    other = run("init", *folder.arguments(vnodes=1))
    assert other.exit_code == 2
    assert "made with 2 vnodes" in other.output
    zones = {"press": ZoneSettings(filter="press/#")}
    with pytest.raises(SettingsError, match="press"):
        asyncio.run(init_cluster(cluster_options(folder.settings(zones=zones)), CLOCK))
    folder.password_file.write_text("another\n")
    wrong = run("status", *folder.arguments())
    assert wrong.exit_code == 2
    assert "refuse user" in wrong.output
    assert "another" not in wrong.output


def test_members_join_over_nats_and_status_shows_them(folder: ClusterFolder) -> None:
    async def act() -> None:
        await init_cluster(cluster_options(folder.settings()), CLOCK)
        async with running(folder.settings(1), 1) as one, running(folder.settings(2), 2) as two:
            shown = await asyncio.to_thread(run, "status", "--ready", "--json", *folder.arguments())
            assert shown.exit_code == 0, shown.output
            status = json.loads(shown.stdout)
            assert status["problems"] == []
            assert status["last"] == {"0": 0, "1": 0}
            members = {member["node"]: member for member in status["members"]}
            assert [members[node]["epoch"] for node in (1, 2)] == [one.lives[0], two.lives[0]]
            assert one.lives[0] < two.lives[0]
            assert members[1]["applied"] == {"0": 7, "1": 5}
            assert (members[1]["state"], members[1]["lag_s"], members[1]["connections"]) == ("live", 1.5, 3)
            assert members[2]["addresses"] == {"mqtt": "10.0.0.2:1883"}
            table = await asyncio.to_thread(run, "status", *folder.arguments())
            assert "applied by 2" in table.output
            two.membership.leave()
            async with asyncio.timeout(30):
                while not two.ends:
                    await one.beats.acquire()
            assert two.ends == ["this node has left"]
            assert one.closings[-1][0] == 2
        status = await read_status(cluster_options(folder.settings()), CLOCK)
        assert [member.state for member in status.members] == ["live", "left"]

    asyncio.run(act())


def test_a_node_that_dies_is_fenced_and_the_cluster_is_not_ready(folder: ClusterFolder) -> None:
    async def act() -> None:
        await init_cluster(cluster_options(folder.settings()), CLOCK)
        async with running(folder.settings(1), 1) as one:
            async with running(folder.settings(2), 2) as two:
                epoch = two.lives[0]
            async with asyncio.timeout(60):
                while not one.closings:
                    await one.beats.acquire()
            assert one.closings[0][0] == 2
            assert one.closings[0][1] > epoch
            assert one.fences == 0
            shown = await asyncio.to_thread(run, "status", "--ready", *folder.arguments())
            assert shown.exit_code == 1
            assert "node 2 is fenced" in shown.output

    asyncio.run(act())


def test_a_node_waits_for_init_and_refuses_the_folder_of_another_cluster(folder: ClusterFolder) -> None:
    async def act() -> None:
        options = cluster_options(folder.settings())
        tried, is_made = asyncio.Event(), asyncio.Event()

        async def wait(_delay_s: float) -> None:
            tried.set()
            await is_made.wait()

        async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
            connection = ClusterConnection(options, tasks, CLOCK, wait=wait)
            opening = asyncio.create_task(connection.open())
            await tried.wait()
            made = await init_cluster(options, CLOCK)
            is_made.set()
            await opening
            assert connection.founded == made.founded
            assert len(connection.vnodes) == 2
            await connection.close()
        stranger = FoundedRow(1, id_of(9), made.founded.found)
        with pytest.raises(SettingsError, match="use another folder"):
            async with open_cluster(options, CLOCK, stranger):
                pass
        async with open_cluster(options, CLOCK, made.founded) as again:
            assert again.founded == made.founded

    asyncio.run(act())


def test_a_cluster_that_no_server_answers_for_fails_and_may_be_tried_again(folder: ClusterFolder) -> None:
    settings = folder.settings(nats="nats://127.0.0.1:9")
    with pytest.raises(TransientError, match="no NATS server answers"):
        asyncio.run(init_cluster(cluster_options(settings), CLOCK))
