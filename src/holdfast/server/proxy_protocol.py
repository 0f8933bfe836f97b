"""The PROXY protocol, version 2: how a load balancer passes on the address of the client.

Bytes in, a header out; no sockets here. The format (haproxy.org, proxy-protocol.txt):

    0..11   signature
    12      version (high half, 2) and command (low half: 0 LOCAL, 1 PROXY)
    13      address family (high half: 1 IPv4, 2 IPv6) and transport (low half: 1 stream)
    14..15  length of what follows
    16..    source address, destination address, source port, destination port; then extensions, skipped

A client that reaches such a listener directly can claim any address, so only listeners whose settings ask for it read
the header.
"""

import ipaddress
from dataclasses import dataclass
from typing import Final

SIGNATURE: Final = b"\r\n\r\n\0\r\nQUIT\n"
FIXED_BYTES: Final = 16

#: Bytes after the fixed part at most. Addresses take 36 and proxies add some hundred bytes of extensions; the
#: format allows 65,535, which no proxy needs and every unknown peer could make us buffer.
LIMIT_BYTES: Final = 4096

#: Family and transport byte → bytes of one address.
_STREAM_ADDRESSES: Final = {0x11: 4, 0x21: 16}


class ProxyHeaderError(Exception):
    """The bytes are not a PROXY header of version 2."""


@dataclass(frozen=True)
class ProxyHeader:
    """A complete header."""

    #: Address and port of the client; None if the socket's own are to be used: the proxy speaks for itself
    #: (LOCAL, a health check), or the client came by something else than TCP.
    source: tuple[str, int] | None
    #: Bytes of the header; what comes after belongs to the client.
    size: int


@dataclass(frozen=True)
class IncompleteHeader:
    """The beginning of a header."""

    #: At least this many bytes are missing. A reader that reads no more than these never reads beyond the header.
    missing: int


def decode(data: bytes) -> ProxyHeader | IncompleteHeader:
    """Decode the header at the beginning of `data`."""
    start = data[: len(SIGNATURE)]
    if not SIGNATURE.startswith(start):
        if start[:5] == b"PROXY":
            raise ProxyHeaderError("PROXY protocol version 1; set the proxy to version 2 (HAProxy: send-proxy-v2)")
        raise ProxyHeaderError("no PROXY header; the peer is no proxy, or its PROXY protocol is switched off")
    if len(data) < FIXED_BYTES:
        return IncompleteHeader(FIXED_BYTES - len(data))
    version, command = data[12] >> 4, data[12] & 0x0F
    if version != 2 or command > 1:
        raise ProxyHeaderError(f"version {version}, command {command} of a PROXY header; known are version 2, 0 and 1")
    length = int.from_bytes(data[14:16], "big")
    if length > LIMIT_BYTES:
        raise ProxyHeaderError(f"PROXY header of {length} bytes; the limit is {LIMIT_BYTES}")
    if len(data) < FIXED_BYTES + length:
        return IncompleteHeader(FIXED_BYTES + length - len(data))
    source = _source(data[13], data[FIXED_BYTES : FIXED_BYTES + length]) if command == 1 else None
    return ProxyHeader(source, FIXED_BYTES + length)


def _source(family: int, body: bytes) -> tuple[str, int] | None:
    width = _STREAM_ADDRESSES.get(family)
    if width is None:
        return None
    if len(body) < 2 * width + 4:
        raise ProxyHeaderError(f"PROXY header with {len(body)} bytes of addresses; its family takes {2 * width + 4}")
    port = int.from_bytes(body[2 * width : 2 * width + 2], "big")
    return str(ipaddress.ip_address(body[:width])), port
