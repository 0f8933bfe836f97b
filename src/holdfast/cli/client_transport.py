"""Bytes between the command line and a broker: TCP or TLS. `client_websocket` puts WebSocket on top of it."""

import asyncio
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from holdfast.cli.client_errors import LostError, RefusedError

_CHUNK_BYTES: Final = 65_536
#: Seconds for the last words of TLS, which some brokers leave out.
_SHUTDOWN_S: Final = 2.0
#: What OpenSSL calls a certificate that is for another host, and for another address.
_WRONG_HOST: Final = (62, 64)


class Transport(Protocol):
    """A stream of bytes in both directions."""

    async def read(self) -> bytes:
        """Some bytes; none at the end. LostError if it ends badly."""
        ...

    def write(self, data: bytes) -> None:
        """Send bytes, after those that wait."""
        ...

    async def drain(self) -> None:
        """Wait while the broker is slow; ConnectionError if it is gone."""
        ...

    def is_closing(self) -> bool:
        """Whether there is nobody left to write to."""
        ...

    async def close(self) -> None:
        """Send what waits, and close."""
        ...


class SocketTransport(Transport):
    """TCP, with or without TLS."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader: Final = reader
        self._writer: Final = writer

    async def read(self) -> bytes:
        try:
            return await self._reader.read(_CHUNK_BYTES)
        except ssl.SSLError as error:
            # With TLS 1.3 a client learns only now that its certificate is missing or does not please.
            if "CERTIFICATE" in (error.reason or "") or error.reason == "SSLV3_ALERT_HANDSHAKE_FAILURE":
                raise RefusedError(
                    f"the broker does not accept our certificate, or misses one ({error.reason}); "
                    "give one that it knows with --cert FILE and --key FILE"
                ) from None
            raise LostError(f"the connection broke: {error.reason or error}") from None
        except OSError as error:
            raise LostError(f"the connection broke: {error.strerror or error}") from None

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    async def drain(self) -> None:
        await self._writer.drain()

    def is_closing(self) -> bool:
        return self._writer.is_closing()

    async def close(self) -> None:
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()


async def open_socket(host: str, port: int, tls: ssl.SSLContext | None) -> SocketTransport:
    """A connection; LostError says why there is none."""
    place = f"{host}:{port}"
    try:
        streams = await asyncio.open_connection(
            host,
            port,
            ssl=tls,
            server_hostname=None if tls is None else host,
            ssl_shutdown_timeout=None if tls is None else _SHUTDOWN_S,
        )
    except ssl.SSLCertVerificationError as error:
        if error.verify_code in _WRONG_HOST:
            remedy = "connect by a name that stands in it"
        else:
            remedy = "name the authority that signed it with --ca FILE"
        raise LostError(
            f"the certificate of {place} is not accepted: {error.verify_message}; {remedy}, "
            "or have nothing checked with --insecure"
        ) from None
    except ssl.SSLError as error:
        raise LostError(f"no TLS with {place}: {error.reason or error}; is it a port for TLS?") from None
    except OSError as error:
        why = error.strerror or str(error)
        raise LostError(f"cannot connect to {place}: {why}; is a broker running there?") from None
    except UnicodeError:
        # Python knows names by their labels: empty ones and those above 63 characters are none.
        raise LostError(f"cannot connect to {place}: this is no name of a host") from None
    return SocketTransport(*streams)


def tls_context(ca: Path | None, cert: Path | None, key: Path | None, *, insecure: bool) -> ssl.SSLContext:
    """What a TLS connection goes by; ValueError names the file that is wrong.

    Without `ca`, the authorities of this machine are trusted. Without `key`, the key stands in the file of `cert`.
    """
    try:
        context = ssl.create_default_context(cafile=ca)
    except OSError as error:  # SSLError is one
        raise ValueError(f"--ca {ca}: {_why(error, 'holds no certificate in PEM form')}") from None
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if cert is not None:
        named = f"--cert {cert}" if key is None else f"--cert {cert} --key {key}"
        try:
            context.load_cert_chain(cert, key)
        except OSError as error:
            raise ValueError(f"{named}: {_why(error, 'are no certificate and its key in PEM form')}") from None
    return context


def _why(error: OSError, otherwise: str) -> str:
    if isinstance(error, ssl.SSLError):
        return f"{otherwise} ({error.reason or error})"
    return error.strerror or str(error)
