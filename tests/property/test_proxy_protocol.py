"""PROXY headers: however they are cut, and whatever comes instead of them."""

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from holdfast.server.proxy_protocol import SIGNATURE, IncompleteHeader, ProxyHeader, ProxyHeaderError, decode
from tests.unit.server.proxy_headers import header, stated

ADDRESSES = st.ip_addresses().map(str)
PORTS = st.integers(0, 65535)
EXTENSIONS = st.binary(max_size=200)


@st.composite
def valid_headers(draw: st.DrawFn) -> bytes:
    if draw(st.booleans()):
        return stated(draw(ADDRESSES), draw(PORTS), draw(EXTENSIONS))
    return header(
        draw(st.binary(min_size=36, max_size=300)), draw(st.integers(0, 255)), draw(st.sampled_from([32, 33]))
    )


@given(ADDRESSES, PORTS, EXTENSIONS, st.binary(max_size=50))
def test_every_stated_source_is_read_back(address: str, port: int, extensions: bytes, rest: bytes) -> None:
    data = stated(address, port, extensions)
    found = decode(data + rest)
    assert found == ProxyHeader((address, port), len(data))


@given(valid_headers(), st.binary(max_size=20), st.data())
def test_cutting_a_header_does_not_matter(data: bytes, rest: bytes, draw: st.DataObject) -> None:
    cut = draw.draw(st.integers(0, len(data) - 1))
    found = decode(data[:cut])
    assert isinstance(found, IncompleteHeader)
    assert 0 < found.missing <= len(data) - cut
    assert decode(data) == decode(data + rest)


@given(valid_headers(), st.binary(max_size=20), st.data())
def test_reading_what_is_missing_never_reads_beyond_the_header(data: bytes, rest: bytes, draw: st.DataObject) -> None:
    source, taken = data + rest, 0
    while isinstance(found := decode(source[:taken]), IncompleteHeader):
        taken += draw.draw(st.integers(1, found.missing))
    assert taken == found.size == len(data)


@given(st.binary(max_size=100) | st.binary(max_size=400).map(lambda tail: SIGNATURE + tail))
def test_random_bytes_give_a_header_a_wait_or_a_refusal(data: bytes) -> None:
    with suppress(ProxyHeaderError):
        found = decode(data)
        assert isinstance(found, IncompleteHeader) or found.size <= len(data)
