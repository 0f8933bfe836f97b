"""PROXY headers: what they state, and which are refused."""

import pytest

from holdfast.server.proxy_protocol import (
    LIMIT_BYTES,
    SIGNATURE,
    IncompleteHeader,
    ProxyHeader,
    ProxyHeaderError,
    decode,
)
from tests.unit.server.proxy_headers import LOCAL, TCP6, UNIX, addresses, header, stated

EXTENSION = b"\x05\x00\x04\x00\x00\x00\x01"


@pytest.mark.parametrize("address", ["203.0.113.7", "2001:db8::7"])
@pytest.mark.parametrize("extensions", [b"", EXTENSION])
def test_the_source_is_what_the_proxy_states(address: str, extensions: bytes) -> None:
    data = stated(address, 40000, extensions)
    assert decode(data + b"MQTT") == ProxyHeader((address, 40000), len(data))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(header(command=LOCAL), id="local without addresses"),
        pytest.param(header(addresses("203.0.113.7", 1), command=LOCAL), id="local with addresses"),
        pytest.param(header(bytes(216), UNIX), id="unix sockets"),
        pytest.param(header(b"", 0x00), id="unspecified"),
        pytest.param(header(addresses("203.0.113.7", 1), 0x12), id="datagrams"),
        pytest.param(header(bytes(9), 0xFF), id="a family of the future"),
    ],
)
def test_the_address_of_the_socket_holds_where_none_is_stated(data: bytes) -> None:
    assert decode(data) == ProxyHeader(None, len(data))


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        pytest.param(b"PROXY TCP4 203.0.113.7 ", "version 1.*send-proxy-v2", id="version 1"),
        pytest.param(b"\x10\x0c\x00\x04MQTT", "no PROXY header", id="a client without proxy"),
        pytest.param(SIGNATURE[:-1] + b"X", "no PROXY header", id="damaged signature"),
        pytest.param(header(command=0x11), "version 1, command 1", id="version 1 in binary"),
        pytest.param(header(command=0x22), "version 2, command 2", id="unknown command"),
        pytest.param(header(bytes(11)), "11 bytes of addresses.*12", id="IPv4 cut short"),
        pytest.param(header(bytes(12), TCP6), "12 bytes of addresses.*36", id="IPv6 cut short"),
        pytest.param(header(bytes(LIMIT_BYTES + 1))[:16], f"{LIMIT_BYTES + 1} bytes", id="too long"),
    ],
)
def test_what_is_no_header_is_refused_with_its_reason(data: bytes, problem: str) -> None:
    with pytest.raises(ProxyHeaderError, match=problem):
        decode(data)


def test_the_length_is_refused_before_the_bytes_come_and_the_limit_itself_is_fine() -> None:
    assert decode(header(bytes(LIMIT_BYTES))[:16]) == IncompleteHeader(LIMIT_BYTES)
    assert decode(b"") == IncompleteHeader(16)
