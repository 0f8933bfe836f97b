"""Bytes between a client and a broker: TCP, TLS or WebSocket, for asyncio and blocking. Knows nothing of MQTT."""

import asyncio
import math
import select
import socket
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from holdfast.client.errors import LostError, RefusedError
from holdfast.client.options import ConnectionOptions

if TYPE_CHECKING:
    from holdfast.client.websocket import WebSocketCodec

_CHUNK_BYTES: Final = 65_536
#: Seconds for the end of a TLS connection, which some brokers leave out.
_TLS_SHUTDOWN_S: Final = 2.0
#: OpenSSL's codes for a certificate of another host name, and of another address.
_WRONG_HOST: Final = (62, 64)


class AsyncTransport:
    """A connection of asyncio. Made by `open_async`."""

    def __init__(self, options: ConnectionOptions, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._options: Final = options
        self._reader: Final = reader
        self._writer: Final = writer
        self._web: Final = _websocket(options)

    async def open(self) -> None:
        web = self._web
        while web is not None and web.is_connecting():
            self._write(web.take_output())
            web.feed(await self._read())

    async def read(self) -> bytes:
        """Some bytes; none at the end. LostError or RefusedError if it ends badly."""
        web = self._web
        if web is None:
            return await self._read()
        while not (data := web.take_input()) and web.is_open:
            web.feed(await self._read())
            self._write(web.take_output())
        return data

    def write(self, data: bytes) -> None:
        if self._web is not None:
            self._web.send(data)
            data = self._web.take_output()
        self._write(data)

    async def drain(self) -> None:
        """Wait while the broker is slow. The reader learns of an end, and why."""
        with suppress(OSError):
            await self._writer.drain()

    async def close(self) -> None:
        """Send what waits, and close."""
        if self._web is not None:
            self._web.close()
            self._write(self._web.take_output())
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    async def _read(self) -> bytes:
        try:
            return await self._reader.read(_CHUNK_BYTES)
        except OSError as error:
            raise _broken(error, self._options) from None

    def _write(self, data: bytes) -> None:
        if data and not self._writer.is_closing():
            self._writer.write(data)


async def open_async(options: ConnectionOptions) -> AsyncTransport:
    """A connection; LostError or RefusedError says why there is none."""
    tls = options.tls
    try:
        async with asyncio.timeout(options.timeout_s):
            reader, writer = await asyncio.open_connection(
                options.host,
                options.port,
                ssl=tls,
                server_hostname=None if tls is None else options.host,
                ssl_shutdown_timeout=None if tls is None else _TLS_SHUTDOWN_S,
            )
            transport = AsyncTransport(options, reader, writer)
            try:
                await transport.open()
            except BaseException:
                writer.close()
                raise
    except (OSError, UnicodeError) as error:
        raise _not_opened(error, options) from None
    return transport


class BlockingTransport:
    """A blocking connection. Made by `open_blocking`."""

    def __init__(self, options: ConnectionOptions, connected: socket.socket) -> None:
        self._options: Final = options
        self._socket: Final = connected
        self._web: Final = _websocket(options)
        self._poll: Final = select.poll()
        self._poll.register(connected, select.POLLIN)

    def open(self) -> None:
        web = self._web
        while web is not None and web.is_connecting():
            self._write(web.take_output())
            web.feed(self._read())

    def is_readable(self, within_s: float = 0.0) -> bool:
        """Whether there is something to read, within a time."""
        if isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
            return True
        return bool(self._poll.poll(None if within_s == math.inf else within_s * 1000))

    def read(self) -> bytes:
        """As that of AsyncTransport. LostError if nothing comes within the timeout."""
        web = self._web
        if web is None:
            return self._read()
        while not (data := web.take_input()) and web.is_open:
            web.feed(self._read())
            self._write(web.take_output())
        return data

    def write(self, data: bytes) -> None:
        """Waits while the broker is slow. LostError if it does not read, or is gone."""
        if self._web is not None:
            self._web.send(data)
            data = self._web.take_output()
        self._write(data)

    def close(self) -> None:
        with suppress(OSError, LostError, RefusedError):
            if self._web is not None:
                self._web.close()
                self._write(self._web.take_output())
        self._socket.close()

    def _read(self) -> bytes:
        try:
            return self._socket.recv(_CHUNK_BYTES)
        except TimeoutError:
            raise LostError(f"the broker has not answered for {self._options.timeout_s:g} s") from None
        except OSError as error:
            raise _broken(error, self._options) from None

    def _write(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except TimeoutError:
            raise LostError(f"the broker has read nothing for {self._options.timeout_s:g} s") from None
        except OSError as error:
            raise _broken(error, self._options) from None


def open_blocking(options: ConnectionOptions) -> BlockingTransport:
    """A connection; LostError or RefusedError says why there is none."""
    try:
        connected = socket.create_connection((options.host, options.port), options.timeout_s)
        try:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if options.tls is not None:
                connected = options.tls.wrap_socket(connected, server_hostname=options.host)
            transport = BlockingTransport(options, connected)
            transport.open()
        except BaseException:
            connected.close()
            raise
    except (OSError, UnicodeError) as error:
        raise _not_opened(error, options) from None
    return transport


def _websocket(options: ConnectionOptions) -> "WebSocketCodec | None":
    if options.path is None:
        return None
    # Not above: most connections need no WebSocket, and its library takes longer to import than they last.
    from holdfast.client.websocket import WebSocketCodec

    return WebSocketCodec(options.host, options.port, options.path, secure=options.tls is not None)


def _not_opened(error: OSError | UnicodeError, options: ConnectionOptions) -> LostError | RefusedError:
    place, names = options.place, options.names
    if isinstance(error, TimeoutError):
        return LostError(f"{place} does not answer; is the address right?")
    if isinstance(error, ssl.SSLCertVerificationError):
        wrong_host = error.verify_code in _WRONG_HOST
        remedy = "connect by a name that stands in it" if wrong_host else names.trust
        return RefusedError(
            f"the certificate of {place} is not accepted: {error.verify_message}; {remedy}{names.or_insecure}"
        )
    if isinstance(error, ssl.SSLError):
        if _is_about_our_certificate(error):
            return _broken(error, options)
        return LostError(f"no TLS with {place}: {error.reason or error}; is it a port for TLS?")
    if isinstance(error, OSError):
        return LostError(f"cannot connect to {place}: {error.strerror or error}; is a broker running there?")
    # Python encodes a host name by its labels: an empty one, or one above 63 characters, is an error.
    return RefusedError(f"cannot connect to {place}: this is no name of a host")


def _broken(error: OSError, options: ConnectionOptions) -> LostError | RefusedError:
    if not isinstance(error, ssl.SSLError):
        return LostError(f"the connection broke: {error.strerror or error}")
    if _is_about_our_certificate(error):
        # With TLS 1.3 a client learns this behind the handshake.
        return RefusedError(
            f"the broker does not accept our certificate, or misses one ({error.reason}); "
            f"give one that it knows with {options.names.identify}"
        )
    return LostError(f"the connection broke: {error.reason or error}")


def _is_about_our_certificate(error: ssl.SSLError) -> bool:
    return "CERTIFICATE" in (error.reason or "") or error.reason == "SSLV3_ALERT_HANDSHAKE_FAILURE"
