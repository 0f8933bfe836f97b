"""A connection whose server goes away and comes back: what was to be heard is heard by the next link."""

import asyncio
from contextlib import suppress

import pytest

from bench.ports import free_port
from holdfast.cluster.nats.connection import NatsConnection, NatsOptions
from holdfast.model.errors import TransientError
from tests.unit.cluster.node_world import settle


class SmallServer:
    """It greets, answers pings, and notes the subjects that it is to send."""

    def __init__(self) -> None:
        self.port = free_port()
        self.subjects: asyncio.Queue[str] = asyncio.Queue()
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._talk, "127.0.0.1", self.port)

    async def stop(self) -> None:
        """Ensures: no client can connect, and none is connected."""
        assert self._server is not None
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with suppress(OSError):
            writer.write(b'INFO {"server_name":"small"}\r\n')
            while line := await reader.readline():
                if line.startswith(b"PING"):
                    writer.write(b"PONG\r\n")
                elif line.startswith(b"SUB"):
                    self.subjects.put_nowait(line.split()[1].decode())
        self._writers.discard(writer)
        writer.close()

    async def until_asked_for(self, subject: str) -> None:
        async with asyncio.timeout(30):
            while await self.subjects.get() != subject:
                pass


def test_a_subject_that_is_named_while_there_is_no_connection_is_heard_from_the_next_one_on() -> None:
    """A node that starts while its server is killed goes on."""

    async def answer(_request: bytes) -> bytes:
        return b""

    async def act() -> None:
        server = SmallServer()
        await server.start()
        async with asyncio.TaskGroup() as tasks:
            connection = await NatsConnection.open(NatsOptions((f"nats://127.0.0.1:{server.port}",), "u", "p"), tasks)
            try:
                await connection.listen("before", lambda _message: None)
                await server.until_asked_for("before")
                await server.stop()
                async with asyncio.timeout(30):
                    while connection.server_info():
                        await settle()
                with pytest.raises(TransientError, match="there is no connection"):
                    connection.publish("subject", b"")
                await connection.listen("heard", lambda _message: None)
                await connection.answer("asked", answer)
                await server.start()
                for subject in ("before", "heard", "asked"):
                    await server.until_asked_for(subject)
            finally:
                await connection.close()
                await server.stop()

    asyncio.run(act())
