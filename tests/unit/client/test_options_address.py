"""Addresses of brokers."""

import pytest

from holdfast.client.options import parse_address


@pytest.mark.parametrize(
    ("text", "host", "port", "path", "secure"),
    [
        ("mqtt://h", "h", 1883, None, False),
        ("tcp://h:7/", "h", 7, None, False),
        ("mqtts://a%40b@h", "h", 8883, None, True),
        ("ssl://h", "h", 8883, None, True),
        ("ws://[::1]:8083", "::1", 8083, "/mqtt", False),
        ("wss://h/a?b=c", "h", 443, "/a?b=c", True),
    ],
)
def test_an_address_has_its_defaults(text: str, host: str, port: int, path: str | None, secure: bool) -> None:
    address = parse_address(text)
    assert (address.host, address.port, address.path, address.secure) == (host, port, path, secure)
    assert address.user == ("a@b" if "@" in text else None)
    if not secure:
        assert parse_address(text.replace(address.scheme, address.secured(), 1)).secure


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("h:1883", "write mqtt://HOST"),
        ("mqtt://[h", "write mqtt://HOST"),
        ("mqtt://:1883", "there is no host in it"),
        ("mqtt://h:99999", "the port must be a number"),
        ("mqtt://h/topic", "nothing may follow the port"),
        ("mqtt://u:p@h", "leave the password out.*use --password-file"),
    ],
)
def test_a_wrong_address_says_what_would_be_right(text: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        parse_address(text, "--password-file")
