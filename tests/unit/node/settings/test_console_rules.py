"""Rules of the section `console`."""

from pathlib import Path

import pytest

from holdfast.node.settings.console_rules import console_problems
from holdfast.node.settings.console_section import ConsoleSettings
from holdfast.node.settings.tree import Listener, Settings

FILE = Path("file")


def problems(console: ConsoleSettings, **others: object) -> dict[str, str]:
    return {key: text for key, text, *_others in console_problems(Settings(console=console, **others))}  # type: ignore[arg-type]


def test_the_default_stays_on_this_machine_and_needs_nothing() -> None:
    assert problems(ConsoleSettings()) == {}


@pytest.mark.parametrize("host", ["0.0.0.0", "*", "10.0.0.7", "console.example.org"])
def test_an_address_that_others_reach_needs_credentials(host: str) -> None:
    found = problems(ConsoleSettings(host=host, behind_proxy=True))
    assert "holdfast console user add NAME --role admin --file console.users" in found["console.host"]


def test_an_address_that_others_reach_needs_tls_or_a_proxy() -> None:
    found = problems(ConsoleSettings(host="*", user_file=FILE))
    assert "--set console.certificate=server.crt" in found["console.host"]
    assert problems(ConsoleSettings(host="*", user_file=FILE, behind_proxy=True)) == {}
    assert problems(ConsoleSettings(host="*", token_file=FILE, certificate=FILE, key=FILE)) == {}


def test_a_console_that_is_off_has_no_problems() -> None:
    assert problems(ConsoleSettings(enabled=False, host="*")) == {}


def test_tls_needs_certificate_and_key() -> None:
    assert "key is" in problems(ConsoleSettings(key=FILE))["console.certificate"]
    assert "certificate is" in problems(ConsoleSettings(certificate=FILE))["console.key"]


def test_a_name_with_a_port_is_no_allowed_host() -> None:
    assert "without port" in problems(ConsoleSettings(allowed_hosts="a.example, b.example:80"))["console.allowed_hosts"]
    assert ConsoleSettings(allowed_hosts="A.example, b.example").hosts() == ("a.example", "b.example")


def test_no_listener_has_the_port_of_the_console() -> None:
    found = problems(ConsoleSettings(), listeners={"main": Listener(port=18083)})
    assert "listeners.main.port" in found["console.port"]
