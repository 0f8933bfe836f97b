"""Streams that are deleted, made again, or lose their end: noticed by whoever reads (A10, A19)."""

from __future__ import annotations

import asyncio
import zlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.cluster.nats.connection import NatsConnection
from holdfast.cluster.nats.log import NatsOrderedLog
from holdfast.cluster.nats.streams import make_streams
from holdfast.durable.ordered_log import FOLLOW, LOST, AppliedPlace, LogEnds, UnknownOutcome, compare
from holdfast.model.errors import TransientError
from tests.cluster.nats_world import on_connection
from tests.conformance.ordered_logs import Collector, append, append_all, read

if TYPE_CHECKING:
    from tests.cluster.nats_world import NatsWorld

pytestmark = pytest.mark.slow


def place(ends: LogEnds, record: bytes) -> AppliedPlace:
    return AppliedPlace(ends.last, zlib.crc32(record), ends.incarnation)


async def ends_of(log: NatsOrderedLog) -> LogEnds:
    """As soon as a leader hears from a majority."""
    while True:
        try:
            return await log.ends()
        except TransientError:
            await asyncio.sleep(0.05)


def test_a_deleted_stream_stops_its_readers_and_takes_no_record(nats_servers: NatsWorld) -> None:
    stream = nats_servers.new_stream()

    async def act() -> None:
        async with nats_servers.opened(stream) as log, nats_servers.connected() as connection:
            await append_all(log, [b"a"])
            reader = Collector()
            log.read(1, reader)
            await reader.until(1)
            await connection.ask(f"STREAM.DELETE.{stream.name}")
            assert isinstance(await append(log, b"b"), UnknownOutcome)
            await reader.until_stopped()
            assert stream.name in reader.why
            with pytest.raises(TransientError, match="holdfast cluster init"):
                await log.ends()

    asyncio.run(act())


def test_a_stream_that_was_made_again_is_another_log_however_long_it_is(nats_servers: NatsWorld) -> None:
    stream = nats_servers.new_stream()

    async def act() -> None:
        async with nats_servers.opened(stream) as log, nats_servers.connected() as connection:
            await append_all(log, [b"a", b"b"])
            applied = place(await log.ends(), b"b")
            reader = Collector()
            log.read(1, reader)
            await reader.until(2)
            await connection.ask(f"STREAM.DELETE.{stream.name}")
            await make_streams(connection, [stream])
            async with on_connection(connection, stream) as other:
                await append_all(other, [b"a", b"b", b"c", b"d"])
            await reader.until_stopped()
            assert [entry.record for entry in reader.found] == [b"a", b"b"]
            late = Collector()
            log.read(2, late)  # of the log that the caller knows
            await late.until_stopped()
            assert late.found == []
            ends = await log.ends()
            assert (ends.first, ends.last) == (1, 4)
            assert compare(applied, ends) == LOST

    asyncio.run(act())


def test_a_stream_that_lost_its_tail_is_noticed_also_when_it_has_grown_again(
    nats_servers: NatsWorld, tmp_path: Path
) -> None:
    stream = nats_servers.new_stream()

    async def act() -> None:
        async with nats_servers.opened(stream) as log:
            await append_all(log, [b"a", b"b"])
            nats_servers.kill()
            nats_servers.save_stores(tmp_path)
            await nats_servers.started()
            reader = Collector()
            log.read(1, reader)
            while not isinstance(await append(log, b"c"), int):
                pass
            before = await ends_of(log)
            applied = place(before, b"c")
            await reader.until(before.last)

            nats_servers.kill()
            nats_servers.restore_stores(tmp_path)
            await nats_servers.started()
            shorter = await ends_of(log)
            assert (shorter.first, shorter.last, shorter.incarnation) == (1, 2, applied.incarnation)
            assert compare(applied, shorter) == LOST
            await reader.until_stopped()

            await append_all(log, [b"x"] * (before.last - 1))
            longer = await log.ends()
            assert compare(applied, longer) == FOLLOW
            [entry] = await read(log, applied.sequence, 1)
            assert zlib.crc32(entry.record) != applied.checksum

    try:
        asyncio.run(act())
    finally:
        nats_servers.start()


def test_a_reading_that_was_away_while_a_stream_lost_its_tail_and_grew_again_is_stopped(
    nats_servers: NatsWorld, tmp_path: Path
) -> None:
    """A19: the reader's own server starts last, when the log is longer than it was."""
    stream = nats_servers.new_stream()
    everywhere = nats_servers.nats_options()
    own_server = replace(everywhere, urls=everywhere.urls[:1])

    async def act() -> None:
        async with nats_servers.opened(stream) as log, asyncio.TaskGroup() as tasks:
            await append_all(log, [b"a", b"b"])
            nats_servers.kill()
            nats_servers.save_stores(tmp_path)
            await nats_servers.started()
            connection = await NatsConnection.open(own_server, tasks)
            async with on_connection(connection, stream) as own:
                reader = Collector()
                own.read(1, reader)
                while not isinstance(await append(log, b"c"), int):
                    pass
                before = (await ends_of(log)).last
                await reader.until(before)

                nats_servers.kill()
                nats_servers.restore_stores(tmp_path)
                for process in nats_servers.processes[1:]:
                    process.start()
                while (await ends_of(log)).last <= before:
                    await append(log, b"x")
                nats_servers.processes[0].start()
                await reader.until_stopped()
                assert "another record than before" in reader.why
                assert b"x" not in [entry.record for entry in reader.found]
            await connection.close()

    try:
        asyncio.run(act())
    finally:
        nats_servers.start()
