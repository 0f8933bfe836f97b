"""Which broker, how to reach it and as whom: the one reader of addresses, passwords and TLS files.

A caller has its own names for its options: `--ca` on the command line, `caFile` in Spark. `OptionNames` carries them,
so that an error says what to change.

An address, `mqtts://broker.example.org:8883`, says how to connect:

    mqtt   plain TCP            1883        tcp means the same
    mqtts  TLS                  8883        ssl and tls mean the same
    ws     WebSocket              80        the path is /mqtt unless the address has one
    wss    WebSocket over TLS    443

The ports are those of an address without one. An address holds no password: it is shown in logs and process lists.
"""

import os
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import unquote, urlsplit

from holdfast.client.core import SessionOptions
from holdfast.client.errors import LostError
from holdfast.model.protocol import V5

PLAIN_PORT: Final = 1883
TLS_PORT: Final = 8883
#: The ports of HTTP: what a WebSocket address without a port means everywhere else.
_WEB_PORT: Final = 80
_WEB_TLS_PORT: Final = 443
_WEB_PATH: Final = "/mqtt"
_SCHEMES: Final = {
    "mqtt": (PLAIN_PORT, False, False),
    "tcp": (PLAIN_PORT, False, False),
    "mqtts": (TLS_PORT, True, False),
    "ssl": (TLS_PORT, True, False),
    "tls": (TLS_PORT, True, False),
    "ws": (_WEB_PORT, False, True),
    "wss": (_WEB_TLS_PORT, True, True),
}
#: The same with TLS.
_SECURE: Final = {"mqtt": "mqtts", "tcp": "mqtts", "ws": "wss"}


@dataclass(frozen=True)
class BrokerAddress:
    """Where to connect to, and how."""

    scheme: str
    host: str
    port: int
    #: Of the WebSocket; None without one.
    path: str | None
    user: str | None

    @property
    def secure(self) -> bool:
        """Whether it speaks TLS."""
        return _SCHEMES[self.scheme][1]

    def secured(self) -> str:
        """The scheme that has what this one lacks: TLS."""
        return _SECURE[self.scheme]


def parse_address(text: str, password_option: str = "password") -> BrokerAddress:
    """Read an address. ValueError says what would be right; `password_option` is where a password belongs instead."""
    try:
        parts = urlsplit(text)
    except ValueError:  # brackets without an IPv6 address in between
        parts = urlsplit("")
    known = _SCHEMES.get(parts.scheme)
    if known is None or not parts.netloc:
        raise ValueError("write mqtt://HOST, mqtts://HOST, ws://HOST or wss://HOST, with :PORT if need be")
    default_port, _secure, web = known
    try:
        port = parts.port
    except ValueError:
        raise ValueError("the port must be a number from 1 to 65535") from None
    if port == 0:
        raise ValueError("the port must be a number from 1 to 65535")
    if not parts.hostname:
        raise ValueError(f"there is no host in it; write {parts.scheme}://HOST")
    if parts.password is not None:
        raise ValueError(f"leave the password out, where others can read it; use {password_option}")
    if parts.fragment or (not web and (parts.path.strip("/") or parts.query)):
        raise ValueError(f"nothing may follow the port; write {parts.scheme}://{parts.hostname}, and topics apart")
    path = None
    if web:
        path = parts.path if parts.path not in ("", "/") else _WEB_PATH
        path += f"?{parts.query}" if parts.query else ""
    user = None if parts.username is None else unquote(parts.username)
    return BrokerAddress(parts.scheme, parts.hostname, port or default_port, path, user)


@dataclass(frozen=True)
class OptionNames:
    """What the options are called where they are given, and what to say when one is missing."""

    ca: str = "ca"
    cert: str = "cert"
    password_env: str = "password_env"
    password_file: str = "password_file"
    version_3: str = "version=V311"
    version_5: str = "version=V5"
    use_tls: str = "mqtts://"
    trust: str = "name the authority that signed it with tls_context(ca=...)"
    #: Behind the remedy for a certificate that is not accepted.
    or_insecure: str = ""
    identify: str = "tls_context(cert=..., key=...)"


@dataclass(frozen=True, kw_only=True)
class ConnectionOptions(SessionOptions):
    """All that it takes to connect, and to connect again."""

    host: str = "127.0.0.1"
    port: int = PLAIN_PORT
    #: The path of a WebSocket; None without one.
    path: str | None = None
    #: None without TLS.
    tls: ssl.SSLContext | None = None
    user_name: str | None = None
    #: Kept out of repr: what is printed ends in logs.
    password: bytes | None = field(default=None, repr=False)
    #: For each answer of the broker.
    timeout_s: float = 10.0
    #: How long to connect again without any progress, before a lost connection is an error; 0 does not try.
    retry_for_s: float = 0.0
    longest_pause_s: float = 5.0
    names: OptionNames = field(default=OptionNames(), repr=False)

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """Options for `mqtt://`, `mqtts://`, `ws://` or `wss://`; ValueError says what is wrong with an address."""
        address = parse_address(url)
        if address.secure:
            options.setdefault("tls", tls_context())
        options.setdefault("user_name", address.user)
        return cls(host=address.host, port=address.port, path=address.path, **options)

    @property
    def place(self) -> str:
        return f"{self.host}:{self.port}"


def tls_context(
    ca: Path | str | None = None,
    cert: Path | str | None = None,
    key: Path | str | None = None,
    *,
    insecure: bool = False,
    names: OptionNames = OptionNames(),  # noqa: B008 - immutable
) -> ssl.SSLContext:
    """What a TLS connection goes by; ValueError names the file that is wrong.

    Without `ca`, the authorities of this machine are trusted. Without `key`, the key is in the file of `cert`.
    """
    try:
        context = ssl.create_default_context(cafile=ca)
    except OSError as error:  # SSLError is one
        raise ValueError(f"{names.ca} {ca}: {_why(error, 'holds no certificate in PEM form')}") from None
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if cert is not None:
        try:
            context.load_cert_chain(cert, key)
        except OSError as error:
            files = f"{cert}" if key is None else f"{cert} and {key}"
            what = "are no certificate and its key in PEM form"
            raise ValueError(f"{names.cert} {files}: {_why(error, what)}") from None
    return context


def read_password(variable: str | None, file: Path | str | None, names: OptionNames) -> bytes | None:
    """The password in an environment variable or in a file; None if neither is given. ValueError if it is not there."""
    if variable is not None:
        if variable not in os.environ:
            raise ValueError(f"{names.password_env} {variable}: there is no such variable; export it")
        return os.environ[variable].encode()
    if file is not None:
        try:
            return Path(file).read_bytes().rstrip(b"\r\n")
        except OSError as error:
            raise ValueError(f"{names.password_file} {file}: {error.strerror}") from None
    return None


def no_answer_error(error: LostError, options: ConnectionOptions) -> LostError:
    """The error for a connection that ends before anything was received."""
    names = options.names
    other = names.version_3 if options.version == V5 else names.version_5
    # Many a TLS server that misses a certificate closes the connection without an alert.
    secure = f"speaks TLS: {names.use_tls}" if options.tls is None else f"wants a certificate: {names.identify}"
    return LostError(f"{error}, instead of answering CONNECT; perhaps it speaks another version: {other}, or {secure}")


def _why(error: OSError, otherwise: str) -> str:
    if isinstance(error, ssl.SSLError):
        return f"{otherwise} ({error.reason or error})"
    return error.strerror or str(error)
