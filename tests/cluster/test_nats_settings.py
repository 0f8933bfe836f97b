"""Streams on real servers: made once, checked when they are opened, and led by another server when they are stuck."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from bench.cluster.nats_servers import leader_of
from holdfast.cluster.nats.connection import NatsConnection, Replied
from holdfast.cluster.nats.log import NatsOrderedLog
from holdfast.cluster.nats.monitor import check_report, describe_missing_servers, read_report
from holdfast.cluster.nats.streams import LogStream, log_streams, make_streams, stream_info
from holdfast.cluster.nats.system_account import check_servers_by_request
from holdfast.durable.ordered_log import UnknownOutcome
from holdfast.model.clock import ManualClock
from holdfast.model.errors import SettingsError, TransientError
from tests.cluster.nats_world import on_connection, until_current
from tests.conformance.ordered_logs import append, append_all

if TYPE_CHECKING:
    from tests.cluster.nats_world import NatsWorld

pytestmark = pytest.mark.slow


def test_streams_are_made_once(nats_servers: NatsWorld) -> None:
    streams = log_streams("init", 2, 1 << 20)

    async def act() -> None:
        async with nats_servers.connected() as one, nats_servers.connected(1) as two:
            made = await asyncio.gather(make_streams(one, streams), make_streams(two, streams))
            assert sum(made) == len(streams)
            before = [await stream_info(one, stream) for stream in streams]
            assert await make_streams(one, streams) == 0
            after = [await stream_info(one, stream) for stream in streams]
            assert [info["config"] for info in after] == [info["config"] for info in before]

    asyncio.run(act())


def test_streams_are_made_when_all_servers_are_there(nats_servers: NatsWorld) -> None:
    stream = nats_servers.new_stream()

    async def act() -> None:
        async with nats_servers.connected(1) as connection:
            nats_servers.processes[0].kill()
            with pytest.raises(TransientError, match="the streams are not ready after 1 s: "):
                await make_streams(connection, [stream], patience_s=1.0)
            await nats_servers.started()
            await make_streams(connection, [stream])
            await open_and_close(connection, stream)

    try:
        asyncio.run(act())
    finally:
        nats_servers.start()


def test_the_ends_of_a_log_are_not_those_of_a_leader_without_a_majority(nats_servers: NatsWorld) -> None:
    """It leads for some seconds more, in its own opinion, while others may have elected another one."""
    stream = nats_servers.new_stream()

    async def act() -> None:
        async with nats_servers.opened(stream) as log, nats_servers.connected() as connection:
            await append_all(log, [b"a"])
            leader = nats_servers.named(await leader_of(connection, stream))
            others = [process for process in nats_servers.processes if process is not leader]
            first = nats_servers.processes.index(leader)
            async with nats_servers.connected(first) as near, on_connection(near, stream) as its_own:
                for process in others:
                    process.pause()
                try:
                    why = ""
                    while "does not hear from a majority" not in why:
                        why = await ends_or_reason(its_own)
                finally:
                    for process in others:
                        process.resume()
                while why:
                    why = await ends_or_reason(its_own)
                assert (await its_own.ends()).last == 1

    asyncio.run(act())


async def ends_or_reason(log: NatsOrderedLog) -> str:
    """Why there are no ends; empty if there are."""
    try:
        await log.ends()
    except TransientError as error:
        await asyncio.sleep(0.05)
        return str(error)
    return ""


def test_a_log_without_a_stream_is_waited_for_and_not_made(nats_servers: NatsWorld) -> None:
    stream = nats_servers.new_stream()

    async def act() -> None:
        async with nats_servers.connected() as connection:
            for _ in range(2):
                with pytest.raises(TransientError, match=f"no stream {stream.name}; for a new cluster `holdfast"):
                    await open_and_close(connection, stream)

    asyncio.run(act())


async def open_and_close(connection: NatsConnection, stream: LogStream) -> None:
    try:
        async with on_connection(connection, stream):
            pass
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None


@pytest.mark.parametrize(
    ("key", "wrong"),
    [("max_bytes", 2 << 20), ("discard", "old"), ("max_age", 600_000_000_000), ("allow_direct", True)],
)
def test_a_stream_whose_settings_were_changed_is_refused(nats_servers: NatsWorld, key: str, wrong: object) -> None:
    stream = nats_servers.new_stream(limit_bytes=1 << 20)

    async def act() -> None:
        async with nats_servers.connected() as connection:
            await make_streams(connection, [stream])
            await open_and_close(connection, stream)
            config: dict[str, Any] = (await stream_info(connection, stream))["config"]
            await connection.ask(f"STREAM.UPDATE.{stream.name}", {**config, key: wrong})
            for act in (open_and_close(connection, stream), make_streams(connection, [stream])):
                with pytest.raises(SettingsError, match=f"stream {stream.name} has {key} = {wrong!r}; right would be"):
                    await act

    asyncio.run(act())


def test_every_server_reports_that_it_is_fit_and_that_all_are_there(nats_servers: NatsWorld) -> None:
    async def act() -> None:
        for process in nats_servers.processes:
            report = await read_report(process.monitor_port)
            check_report(report)
            while describe_missing_servers(report, 3):  # a test before this one may have killed their leader
                report = await read_report(process.monitor_port)
            assert "3 of 4" in describe_missing_servers(report, 4)

    asyncio.run(act())


def test_a_majority_of_the_servers_tells_in_its_system_account_that_it_syncs(nats_servers: NatsWorld) -> None:
    async def act() -> None:
        options = nats_servers.nats_options(first=2)
        async with asyncio.TaskGroup() as tasks:
            await check_servers_by_request(options, tasks)
            nats_servers.processes[0].kill()
            await check_servers_by_request(options, tasks)
            nats_servers.processes[1].kill()
            with pytest.raises(TransientError, match="1 of 3 NATS servers report to 'node-system'"):
                await check_servers_by_request(options, tasks)

    try:
        asyncio.run(act())
    finally:
        nats_servers.start()


class DeafConnection(NatsConnection):
    """The stream's leader answers no append, and everything else."""

    deaf = ""

    def post(self, subject: str, payload: bytes, replied: Replied, timeout_s: float = 0.0) -> None:
        if subject == self.deaf:
            asyncio.get_running_loop().call_soon(replied, TransientError("no answer"))
        else:
            super().post(subject, payload, replied, timeout_s)


@pytest.mark.parametrize("leads", [True, False])
def test_a_leader_that_answers_no_append_is_replaced_by_the_node_that_leads(
    nats_servers: NatsWorld, *, leads: bool
) -> None:
    stream = nats_servers.new_stream()
    clock = ManualClock()

    async def act() -> None:
        async with asyncio.TaskGroup() as tasks:
            connection = await DeafConnection.open(nats_servers.nats_options(), tasks)
            assert isinstance(connection, DeafConnection)
            await make_streams(connection, [stream])
            await until_current(connection, stream)
            before = await leader_of(connection, stream)
            async with on_connection(connection, stream, clock, leads=leads) as log:
                connection.deaf = stream.subject
                for _ in range(3):
                    assert isinstance(await append(log, b"a"), UnknownOutcome)
                    clock.advance(20_000_000)
                while log._running:
                    await asyncio.wait(log._running)
                assert (await leader_of(connection, stream) != before) == leads
                connection.deaf = ""
                await append_all(log, [b"a"])
            await connection.close()

    asyncio.run(act())
