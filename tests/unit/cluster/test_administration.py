"""The status of a cluster: read from its control log alone, with every reason why it is not ready."""

import asyncio
from pathlib import Path

import pytest

from holdfast.cluster import administration
from holdfast.cluster.administration import replay_control
from holdfast.cluster.membership.cluster_status import LIVE, SILENT, ClusterStatus, MemberStatus, member_status
from holdfast.cluster.nats.monitor import MAX_PAYLOAD_BYTES, Report
from holdfast.cluster.nats.server import ServerOptions
from holdfast.durable.memory_ordered_log import MemoryOrderedLog
from holdfast.durable.state_machine.control import all_members
from holdfast.model.clock import ManualClock
from holdfast.model.errors import PermanentError, TransientError
from holdfast.records.cluster.control import Beat, Fence, Join, VnodeProgress
from holdfast.records.cluster.control_rows import FENCED, LEFT, BeatRow, MemberRow
from tests.unit.durable.state_machine.control_log import FOUND, control_record, id_of
from tests.unit.durable.state_machine.vnode import CLUSTER_ID, S, T

JOIN = Join("n1", id_of(1), id_of(2), 0, addresses=(("mqtt", "h:1"),))
BEAT = BeatRow(9, T, T, Beat((VnodeProgress(0, 7, 6),), 1500, 3, ready=True))


def log_of(*records: bytes) -> MemoryOrderedLog:
    log = MemoryOrderedLog(ManualClock())
    for record in records:
        log.append(record, lambda _result: None)
    return log


def test_members_are_read_from_the_control_log() -> None:
    log = log_of(
        control_record(0, 0, 0, FOUND),
        control_record(1, 0, 0, Join("n1", id_of(1), id_of(1), 1)),
        control_record(2, 0, 0, Join("n2", id_of(2), id_of(2), 1)),
        control_record(1, 2, 1, Fence(2, 3, 3)),
    )
    founded, tables = asyncio.run(replay_control(log))
    assert founded.cluster_id == CLUSTER_ID
    assert {node: member.lives for node, member in all_members(tables).items()} == {1: True, 2: False}
    assert log.readings() == []


def test_a_log_without_a_founding_and_an_unreadable_one_are_told_apart() -> None:
    with pytest.raises(TransientError, match="cluster init"):
        asyncio.run(replay_control(log_of()))
    damaged = bytearray(control_record(1, 2, 1, Beat()))
    damaged[-1] ^= 1
    with pytest.raises(PermanentError, match="record 2"):
        asyncio.run(replay_control(log_of(control_record(0, 0, 0, FOUND), bytes(damaged))))


@pytest.mark.parametrize(("routes", "size", "is_enough"), [(3, 3, True), (5, 3, False), (5, 5, True), (1, 2, False)])
def test_init_waits_until_the_servers_of_all_peers_are_there(
    routes: int, size: int, is_enough: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def report(_port: int) -> Report:
        return {
            "version": "2.15.1",
            "max_payload": MAX_PAYLOAD_BYTES,
            "jetstream": {"config": {"sync_always": True}, "meta": {"leader": "a", "cluster_size": size}},
        }

    monkeypatch.setattr(administration, "read_report", report)
    peers = tuple(f"10.0.0.{at}:6222" for at in range(routes))
    server = ServerOptions("c", "n", tmp_path, "u", "p", 1, 2, 3, peers, 1)

    async def wait(_delay_s: float) -> None:
        await asyncio.sleep(0)

    waiting = administration._wait_for_servers(server, 0.01, wait)
    if is_enough:
        asyncio.run(waiting)
    else:
        with pytest.raises(TransientError, match=f"{size} of {max(3, routes)} servers"):
            asyncio.run(waiting)


@pytest.mark.parametrize(
    ("row", "beat", "state"),
    [
        (MemberRow(2, JOIN), BEAT, LIVE),
        (MemberRow(2, JOIN), None, LIVE),
        (MemberRow(2, JOIN), BeatRow(9, T - 20 * S, T, BEAT.beat), SILENT),
        (MemberRow(2, JOIN, 9, FENCED), BEAT, "fenced"),
        (MemberRow(2, JOIN, 9, LEFT), BEAT, "left"),
    ],
)
def test_the_state_of_a_member(row: MemberRow, beat: BeatRow | None, state: str) -> None:
    status = member_status(1, row, beat, T + S)
    assert status.state == state
    if beat is BEAT:
        assert (status.beat_age_s, status.applied, status.synced, status.lag_s) == (1.0, {0: 7}, {0: 6}, 1.5)


def member(node: int, state: str = LIVE, *, ready: bool = True) -> MemberStatus:
    return MemberStatus(node, f"n{node}", 2, state, 1.0, ready, 0.0, 0, {}, {}, {})


def test_a_cluster_is_ready_when_all_its_members_are() -> None:
    def problems(*members: MemberStatus, streams: list[str] | None = None) -> list[str]:
        return ClusterStatus("c", "", list(members), {}, streams or []).problems()

    assert problems(member(1), member(2), member(3, "left", ready=False)) == []
    assert problems() == ["no node has joined"]
    assert problems(member(1), member(2, "fenced")) == ["node 2 is fenced"]
    assert problems(member(1), member(2, SILENT)) == ["node 2 is silent"]
    assert problems(member(1, ready=False)) == ["node 1 is not ready"]
    assert problems(member(1), streams=["stream x has no leader"]) == ["stream x has no leader"]
