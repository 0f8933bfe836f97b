"""Rules of the section `console`. `rules` adds the sources of the values.

1. A console that other machines can reach has users or tokens, and they reach it through TLS: its own, or a proxy's.
2. TLS needs both a certificate and its key.
3. No listener and no port of the history process has its address.
"""

import re
from collections.abc import Iterator
from typing import Final

from holdfast.history.settings import is_loopback
from holdfast.node.settings.tree import Settings

_HOST_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,252}[a-z0-9])?")


def console_problems(settings: Settings, program: str = "holdfast serve") -> Iterator[tuple[str, ...]]:
    """A key, its problem, and the other keys that cause it. `program` is the command that the text tells to run."""
    console = settings.console
    if console.enabled is False:
        return
    if not console.host:
        yield "console.host", "is empty; '*' means every address"
    elif not is_loopback(console.host):
        yield from _reachable_problems(settings, program)
    for one, other in (("certificate", "key"), ("key", "certificate")):
        if getattr(console, one) is None and getattr(console, other) is not None:
            yield f"console.{one}", f"is not set, and {other} is; TLS needs both, two PEM files", f"console.{other}"
    for name in console.hosts():
        if not _HOST_NAME.fullmatch(name):
            text = f"has {name!r}; it must be names without port, such as 'console.example.org'"
            yield "console.allowed_hosts", text
    for key, port in _other_ports(settings):
        if console.port and port == console.port:
            yield "console.port", f"is {port}, as is {key}; give each its own port", key


def _reachable_problems(settings: Settings, program: str) -> Iterator[tuple[str, ...]]:
    console = settings.console
    stay = "or use --set console.host=127.0.0.1 to stay on this machine"
    if console.user_file is None and console.token_file is None:
        text = (
            f"is {console.host}, which other machines may reach, and there are neither users nor tokens. Add a user:\n"
            "    holdfast console user add NAME --role admin --file console.users\n"
            f"    {program} --set console.user_file=console.users\n"
            f"{stay}"
        )
        yield "console.host", text, "console.user_file", "console.token_file"
    if console.certificate is None and console.key is None and not console.behind_proxy:
        text = (
            f"is {console.host}, which other machines may reach, and passwords would travel in clear. Use TLS:\n"
            f"    {program} --set console.certificate=server.crt --set console.key=server.key\n"
            "or put a proxy with TLS in front, and say so:\n"
            f"    {program} --set console.behind_proxy=true\n"
            f"{stay}"
        )
        yield "console.host", text, "console.certificate", "console.behind_proxy"


def _other_ports(settings: Settings) -> Iterator[tuple[str, int]]:
    for name, listener in settings.listeners.items():
        yield f"listeners.{name}.port", listener.port
    if settings.history.enabled:
        yield "history.flight_port", settings.history.flight_port
        yield "history.http_port", settings.history.http_port
