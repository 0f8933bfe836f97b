"""PROXY headers as proxies send them."""

import ipaddress

from holdfast.server.proxy_protocol import SIGNATURE

TCP4, TCP6, UNIX = 0x11, 0x21, 0x31
LOCAL, PROXY = 0x20, 0x21


def header(body: bytes = b"", family: int = TCP4, command: int = PROXY) -> bytes:
    return SIGNATURE + bytes([command, family]) + len(body).to_bytes(2, "big") + body


def addresses(source: str, port: int, extensions: bytes = b"") -> bytes:
    """The body that names a source; the destination does not matter."""
    packed = ipaddress.ip_address(source).packed
    return packed + bytes(len(packed)) + port.to_bytes(2, "big") + (1883).to_bytes(2, "big") + extensions


def stated(source: str, port: int, extensions: bytes = b"") -> bytes:
    """A whole header for a client with that address."""
    return header(addresses(source, port, extensions), TCP6 if ":" in source else TCP4)
