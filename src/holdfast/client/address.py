"""The address of a broker: `mqtts://broker.example.org:8883`, taken apart.

    mqtt   plain TCP            1883        tcp means the same
    mqtts  TLS                  8883        ssl and tls mean the same
    ws     WebSocket              80        the path is /mqtt unless the address has one
    wss    WebSocket over TLS    443

The ports are those of an address without one. An address holds no password: it is shown in logs and process lists.
"""

from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

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
