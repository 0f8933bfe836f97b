"""What is shown of an address holds no password."""

import pytest

from holdfast.model.passwords import hide_passwords

pytestmark = pytest.mark.compiled


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("redis://ann:secret@host:6379/0", "redis://ann:***@host:6379/0"),
        ("redis://:secret@host", "redis://:***@host"),
        ("mqtt://ann:se:cr@et/x@host:1", "mqtt://ann:***@host:1"),
        ("redis://a:secret@h1:1,redis://b:se,cret@h2:2", "redis://a:***@h1:1,redis://b:***@h2:2"),
        ("redis+cluster://a:secret@h1:1,h2:2", "redis+cluster://a:***@h1:1,h2:2"),
        ("postgresql://ann@host/db?password=secret&x=1", "postgresql://ann@host/db?password=***&x=1"),
        ("--url mqtt://ann:secret@host: leave it out", "--url mqtt://ann:***@host: leave it out"),
    ],
)
def test_a_password_in_an_address_is_hidden(text: str, shown: str) -> None:
    assert hide_passwords(text) == shown


@pytest.mark.parametrize("text", ["mqtt://host:1883", "mqtt://ann@host:1883", "h1:1,h2:2", "a: b@c", ""])
def test_text_without_a_password_stays(text: str) -> None:
    assert hide_passwords(text) == text
