"""Servers that are killed while records are appended and read: what was confirmed is there, in one order."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import nats
import pytest

from bench.cluster.nats_servers import leader_of
from holdfast.cluster.nats.log import NatsOrderedLog
from holdfast.cluster.nats.streams import make_streams
from holdfast.durable.ordered_log import UnknownOutcome
from holdfast.records.cluster.record import MAX_RECORD_BYTES
from tests.cluster.log_traffic import Writer, check_history
from tests.cluster.nats_world import on_connection, until_current
from tests.conformance.ordered_logs import Collector, append, append_all, read

if TYPE_CHECKING:
    from tests.cluster.nats_world import NatsWorld

pytestmark = pytest.mark.slow

#: Confirmed records of each writer before the fault, and in the end.
BEFORE, ALL = 30, 80


async def finish(log: NatsOrderedLog, writers: list[Writer], readers: list[Collector]) -> None:
    """All writers have written. A last record tells how far readers have to come."""
    last = await append(log, b"the end")
    while not isinstance(last, int):
        last = await append(log, b"the end")
    check_history(writers, *[await reader.until(last) for reader in readers], await read(log, 1, last))


@pytest.mark.parametrize("fault", ["killed", "hangs"])
@pytest.mark.parametrize("victim", ["leader", "follower", "server of the client"])
def test_what_was_confirmed_survives_a_server_that_is_away(nats_servers: NatsWorld, victim: str, fault: str) -> None:
    """A server that hangs is the harder case: it comes back as what it was, a leader too."""
    stream = nats_servers.new_stream()

    async def act() -> None:
        async with nats_servers.opened(stream, first=0) as one, nats_servers.opened(stream, first=1) as two:
            readers = [Collector(), Collector()]
            readings = [one.read(1, readers[0]), two.read(1, readers[1])]
            writers = [Writer(one, "one"), Writer(two, "two")]
            async with nats_servers.connected(2) as connection, asyncio.TaskGroup() as tasks:
                leader = await leader_of(connection, stream)
                others = [process for process in nats_servers.processes if process.server_name != leader]
                chosen = {"leader": nats_servers.named(leader), "follower": others[0]}
                for writer in writers:
                    tasks.create_task(writer.write_all(range(ALL)))
                await writers[0].until(BEFORE)
                process = chosen.get(victim, nats_servers.processes[0])
                (process.kill if fault == "killed" else process.pause)()
                try:
                    for writer in writers:
                        await writer.until(ALL)
                finally:
                    if fault == "hangs":
                        process.resume()
            await finish(one, writers, readers)
            for reading in readings:
                reading.close()

    try:
        asyncio.run(act())
    finally:
        nats_servers.start()


def test_what_was_confirmed_survives_the_end_of_all_servers(nats_servers: NatsWorld) -> None:
    stream = nats_servers.new_stream()

    async def act() -> None:
        async with nats_servers.opened(stream, first=0) as one, nats_servers.opened(stream, first=1) as two:
            readers = [Collector(), Collector()]
            readings = [one.read(1, readers[0]), two.read(1, readers[1])]
            writers = [Writer(one, "one"), Writer(two, "two")]
            async with asyncio.TaskGroup() as tasks:
                for writer in writers:
                    tasks.create_task(writer.write_all(range(ALL)))
                await writers[0].until(BEFORE)
                nats_servers.kill()
                await nats_servers.started()
            assert sum(writer.unknown for writer in writers)
            await finish(two, writers, readers)
            for reading in readings:
                reading.close()

    try:
        asyncio.run(act())
    finally:
        nats_servers.start()


def test_an_append_without_an_answer_is_not_lost_and_its_repetition_has_another_sequence(
    nats_servers: NatsWorld,
) -> None:
    """A4: the log does not know a record again; the state machine does, by its number."""
    stream = nats_servers.new_stream()

    async def act() -> None:
        async with nats_servers.opened(stream, timeout_s=0.3) as log, nats_servers.connected() as connection:
            await until_current(connection, stream)
            leader = nats_servers.named(await leader_of(connection, stream))
            # The client is asked to be elsewhere: what it sends waits in front of the leader.
            other = _other(nats_servers, leader.client_port)
            async with (
                nats_servers.connected(other, 0.3) as elsewhere,
                on_connection(elsewhere, stream) as writer,
            ):
                leader.pause()
                try:
                    lost = await append(writer, b"a record")
                finally:
                    leader.resume()
                assert isinstance(lost, UnknownOutcome)
                again = await append(writer, b"a record")
                while not isinstance(again, int):
                    again = await append(writer, b"a record")
            found = await read(log, 1, again)
            assert [entry.record for entry in found] == [b"a record"] * again
            assert again >= 2

    asyncio.run(act())


def _other(servers: NatsWorld, port: int) -> int:
    return next(at for at, process in enumerate(servers.processes) if process.client_port != port)


def test_a_full_log_answers_unknown_loses_nothing_and_goes_on_after_a_trim(nats_servers: NatsWorld) -> None:
    """A11: nothing is blocked until stopped, and old records do not make room for new ones."""
    stream = nats_servers.new_stream(limit_bytes=200_000)

    async def act() -> None:
        async with nats_servers.opened(stream) as log:
            last = 0
            while isinstance(result := await append(log, bytes(20_000)), int):
                last = result
            assert isinstance(result, UnknownOutcome)
            assert result.why == "the log is full"
            assert last > 5
            ends = await log.ends()
            assert (ends.first, ends.last) == (1, last)
            await log.trim(last)
            assert await append(log, b"room again") == last + 1
            assert [entry.sequence for entry in await read(log, last, 2)] == [last, last + 1]

    asyncio.run(act())


def test_a_foreign_message_on_the_subject_is_an_entry_like_any_other(nats_servers: NatsWorld) -> None:
    """A11: neither an empty one nor those that look like statuses of JetStream stop a reader."""
    stream = nats_servers.new_stream()

    async def act() -> None:
        options = nats_servers.nats_options()
        async with nats_servers.opened(stream) as log:
            await append_all(log, [b"a"])
            reader = Collector()
            reading = log.read(1, reader)
            foreign = await nats.connect(list(options.urls), user=options.user, password=options.password)
            await foreign.request(stream.subject, b"", timeout=2)
            for status, text in (("409", "Consumer Deleted"), ("100", "Idle Heartbeat")):
                headers = {"Status": status, "Description": text}
                await foreign.request(stream.subject, b"", timeout=2, headers=headers)
            await foreign.close()
            await append_all(log, [b"b"])
            assert [entry.record for entry in await reader.until(5)] == [b"a", b"", b"", b"", b"b"]
            reading.close()

    asyncio.run(act())


def test_a_record_at_its_bound_is_stored_and_read(nats_servers: NatsWorld) -> None:
    """A11: the bound of a record and the largest payload of the servers go together."""
    stream = nats_servers.new_stream(limit_bytes=64 << 20)
    largest = bytes(range(256)) * (MAX_RECORD_BYTES // 256)

    async def act() -> None:
        async with nats_servers.opened(stream, max_bytes=MAX_RECORD_BYTES, timeout_s=20.0) as log:
            assert len(largest) == MAX_RECORD_BYTES
            assert await append_all(log, [largest, b"a", largest, largest]) == [1, 2, 3, 4]
            assert [entry.record for entry in await read(log, 1, 4)] == [largest, b"a", largest, largest]

    asyncio.run(act())


def test_nothing_that_ended_as_unknown_without_a_connection_arrives_later(nats_servers: NatsWorld) -> None:
    stream = nats_servers.new_stream()

    async def act() -> None:
        async with nats_servers.opened(stream) as log:
            await append_all(log, [b"a"])
            nats_servers.kill()
            without_connection = 0
            while without_connection < 3:
                result = await append(log, b"b")
                assert isinstance(result, UnknownOutcome)
                without_connection += "there is no connection" in result.why
            await nats_servers.started()
            last = await append(log, b"c")
            while not isinstance(last, int):
                last = await append(log, b"c")
            assert b"b" not in [entry.record for entry in await read(log, 1, last)]

    try:
        asyncio.run(act())
    finally:
        nats_servers.start()


def test_a_connection_that_was_closed_is_made_again(nats_servers: NatsWorld) -> None:
    stream = nats_servers.new_stream()

    async def act() -> None:
        async with nats_servers.connected() as connection:
            await make_streams(connection, [stream])
            async with on_connection(connection, stream) as log:
                reader = Collector()
                reading = log.read(1, reader)
                await append_all(log, [b"a"])
                await reader.until(1)
                assert connection._link is not None
                connection._link.abort("an error of the protocol")
                again = await append(log, b"b")
                while not isinstance(again, int):
                    again = await append(log, b"b")
                assert [entry.record for entry in await reader.until(2)] == [b"a", b"b"]
                reading.close()

    asyncio.run(act())


def test_a_server_that_hangs_is_left_also_with_more_bytes_on_their_way_than_its_socket_takes(
    nats_servers: NatsWorld,
) -> None:
    stream = nats_servers.new_stream(limit_bytes=256 << 20)
    large = bytes(MAX_RECORD_BYTES)

    async def act() -> None:
        async with nats_servers.opened(stream, max_bytes=MAX_RECORD_BYTES) as log:
            nats_servers.processes[0].pause()
            try:
                result = await append(log, large)
                while not isinstance(result, int):
                    result = await append(log, large)
            finally:
                nats_servers.processes[0].resume()
            assert {entry.record for entry in await read(log, 1, result)} == {large}

    asyncio.run(act())
    nats_servers.start()
