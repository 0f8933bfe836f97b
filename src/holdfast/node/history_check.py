"""Rules between the settings of history and the others; `settings_check` says where the values come from."""

import importlib.util
from collections.abc import Iterator
from typing import Final

from holdfast.history.settings import is_loopback
from holdfast.node.settings import Settings

#: What the process needs beyond a broker, and how to get it.
INSTALL: Final = 'pip install "holdfast[history]"'
_LIBRARIES: Final = ("pyarrow", "numpy")


def history_problems(settings: Settings, program: str = "holdfast serve") -> Iterator[tuple[str, ...]]:
    """A key, what is wrong with it, and the other keys that this follows from. `program` is what is to be run again."""
    history = settings.history
    if not history.enabled:
        return
    if missing := missing_libraries():
        yield "history.enabled", f"is true, and {missing} is not installed; run: {INSTALL}"
    if not settings.on_disk():
        text = "is true, and nothing is stored: storage.durability is 'memory'; remove one of them"
        yield "history.enabled", text, "storage.durability"
    if not history.host:
        yield "history.host", "is empty; '*' means every address"
    elif not is_loopback(history.host) and history.token_file is None:
        text = (
            f"is {history.host}, which other machines may reach, and there are no tokens. Make one:\n"
            "    holdfast token add NAME --file holdfast.tokens\n"
            f"    {program} --set history.token_file=holdfast.tokens\n"
            "or use --set history.host=127.0.0.1 to stay on this machine"
        )
        yield "history.host", text, "history.token_file"
    for one, other in (("certificate", "key"), ("key", "certificate")):
        if getattr(history, one) is None and getattr(history, other) is not None:
            yield f"history.{one}", f"is not set, and {other} is; TLS needs both, two PEM files", f"history.{other}"
    if history.flight_port and history.flight_port == history.http_port:
        yield "history.http_port", f"is {history.http_port}, as is flight_port; give each a port of its own"


def missing_libraries() -> str:
    """Those that have to be installed first; empty if none."""
    return " and ".join(name for name in _LIBRARIES if importlib.util.find_spec(name) is None)
