"""A node's life: listen, serve until told to stop, close."""

import asyncio
import ipaddress
import secrets
import signal

import structlog

from holdfast.broker.connection import Connection
from holdfast.model.errors import SettingsError
from holdfast.node.build_info import describe
from holdfast.node.system_clock import SystemClock
from holdfast.server.tcp import listen_tcp

_log = structlog.get_logger()


def check_loopback(host: str) -> None:
    """Nothing listens beyond this machine without credentials, and there are none yet."""
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise SettingsError(
            f"--host {host}: this build knows no credentials and binds loopback only; use --host 127.0.0.1 or ::1"
        )


async def serve(host: str, port: int) -> None:
    """Serve until SIGINT or SIGTERM."""
    check_loopback(host)
    clock = SystemClock()
    try:
        server = await listen_tcp(host, port, lambda: Connection(clock, f"holdfast-{secrets.token_hex(8)}"))
    except OSError as error:
        raise SettingsError(f"cannot listen on {host}:{port}: {error.strerror}; choose another --port") from error
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    _log.info(describe())
    _log.warning("this build answers CONNECT, PINGREQ and DISCONNECT only; PUBLISH and SUBSCRIBE are refused")
    _log.info("listening", host=host, port=server.sockets[0].getsockname()[1])
    async with server:
        await stop.wait()
    _log.info("stopped")
