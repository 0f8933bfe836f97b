"""Which web pages may connect, and which listeners say at their start that anybody may."""

from pathlib import Path

import pytest

from holdfast.node.assembly import listener_specs
from holdfast.node.lifecycle import open_listeners
from holdfast.node.settings.rules import problems_of
from holdfast.node.settings.tree import Listener, Security, Settings

PASSWORDS = Security(password_file=Path("passwd"))
ANONYMOUS = Security(allow_anonymous=True)


def origins(listener: Listener, security: Security) -> tuple[str, ...] | None:
    (made,) = listener_specs(Settings(listeners={"web": listener}, security=security))
    return made.allowed_origins


@pytest.mark.parametrize(
    ("listener", "security", "expected"),
    [
        (Listener(kind="ws"), Security(), None),
        (Listener(kind="ws"), ANONYMOUS, None),
        (Listener(kind="ws", host="0.0.0.0"), PASSWORDS, None),
        (Listener(kind="ws", host="0.0.0.0"), ANONYMOUS, ()),
        (Listener(kind="ws", host="0.0.0.0", allowed_origins="*"), ANONYMOUS, None),
        (Listener(kind="ws", allowed_origins="https://a.example, https://b.example:8443"), PASSWORDS, "both"),
    ],
)
def test_browsers_are_refused_by_default_where_they_need_no_password(
    listener: Listener, security: Security, expected: tuple[str, ...] | str | None
) -> None:
    both = ("https://a.example", "https://b.example:8443")
    assert origins(listener, security) == (both if expected == "both" else expected)


def test_a_client_certificate_that_every_page_could_use_is_no_password() -> None:
    listener = Listener(kind="wss", client_ca=Path("ca"), certificate=Path("c"), key=Path("k"))
    assert origins(listener, PASSWORDS) == ()


@pytest.mark.parametrize(
    ("listener", "text"),
    [
        (Listener(kind="ws", allowed_origins="example.org"), "'example.org'; an origin is scheme, host and port"),
        (Listener(kind="ws", allowed_origins="https://example.org/page"), "without a path"),
        (Listener(kind="tcp", allowed_origins="https://example.org"), "is for no browser"),
    ],
)
def test_an_origin_that_no_browser_sends_is_refused_at_the_start(listener: Listener, text: str) -> None:
    problems = problems_of(Settings(listeners={"web": listener}))
    assert any(text in problem.text for problem in problems), problems


def test_listeners_that_anybody_may_use_are_named_at_the_start() -> None:
    listeners = {
        "all": Listener(host="0.0.0.0"),
        "one": Listener(host="192.0.2.1", allow_anonymous=False),
        "local": Listener(),
    }
    lines = open_listeners(Settings(listeners=listeners, security=ANONYMOUS))
    assert [(line["listener"], line["host"], line["rights"]) for line in lines] == [
        ("all", "0.0.0.0", "publish and read everything")
    ]
    assert open_listeners(Settings()) == []
