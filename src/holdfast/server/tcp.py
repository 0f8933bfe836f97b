"""MQTT over TCP: one `asyncio.Protocol` per connection, and nothing of MQTT in it."""

import asyncio
from collections.abc import Callable

import structlog

from holdfast.broker.connection import Connection

_log = structlog.get_logger()


class TcpChannel(asyncio.Protocol):
    """Moves bytes between a socket and a `Connection`, and wakes it when it is silent for too long."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._check_silence()

    def data_received(self, data: bytes) -> None:
        deadline_was_for_connect = not self._connection.client_id
        self._connection.receive(data)
        self._send()
        if deadline_was_for_connect and self._connection.client_id:
            self._check_silence()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the reason does not matter here
        if self._timer is not None:
            self._timer.cancel()
        self._transport = None

    def _check_silence(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        left_us = self._connection.check_silence()
        if left_us:
            self._timer = asyncio.get_running_loop().call_later(left_us / 1_000_000, self._check_silence)
        self._send()

    def _send(self) -> None:
        transport = self._transport
        if transport is None:
            return
        out = self._connection.take_output()
        if out:
            transport.write(out)
        if self._connection.closed and not transport.is_closing():
            if self._connection.complaint:
                _log.info("connection refused", client=self._connection.client_id, why=self._connection.complaint)
            transport.close()


async def listen_tcp(host: str, port: int, connect: Callable[[], Connection]) -> asyncio.Server:
    """Accept connections; each gets what `connect` makes."""
    return await asyncio.get_running_loop().create_server(lambda: TcpChannel(connect()), host, port)
