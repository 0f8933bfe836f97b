"""Rules of single sections: `history`, and those of client queues. `rules` adds the sources of the values."""

import importlib.util
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from holdfast.history.settings import is_loopback
from holdfast.node.queue_stores import named_backends
from holdfast.node.settings.tree import Settings

#: What the history process needs beyond a broker, and how to get it.
INSTALL: Final = 'pip install "holdfast[history]"'
INSTALL_LAKE: Final = 'pip install "holdfast[lake]"'
_LIBRARIES: Final = ("pyarrow", "numpy")


def history_problems(settings: Settings, program: str = "holdfast serve") -> Iterator[tuple[str, ...]]:
    """A key, its problem, and the other keys that cause it. `program` is the command that the text tells to run."""
    history = settings.history
    if history.lake:
        if not history.enabled:
            yield "history.lake", "is set, and the process that reads it does not run; set history.enabled = true"
        elif importlib.util.find_spec("deltalake") is None:
            yield "history.lake", f"is set, and deltalake is not installed; run: {INSTALL_LAKE}"
        if settings.cluster.is_on:
            text = "is set, and nodes of a cluster replay what their logs have; remove it"
            yield "history.lake", text, "cluster.name"
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
        yield "history.http_port", f"is {history.http_port}, as is flight_port; give each its own port"


def missing_libraries() -> str:
    """Libraries that are not installed; empty if all are."""
    return " and ".join(name for name in _LIBRARIES if importlib.util.find_spec(name) is None)


def queue_problems(settings: Settings) -> Iterator[tuple[str, ...]]:
    """A key, its problem, and the other keys that cause it."""
    for name, rule in settings.classes.items():
        if not rule.clients:
            yield f"classes.{name}.clients", "is empty; name the clients of the class, such as 'device-*'"
    named = named_backends(settings)
    if named and not settings.on_disk():
        keys = {"sessions.queue": settings.sessions.queue}
        keys |= {f"classes.{name}.queue": rule.queue for name, rule in settings.classes.items()}
        for key, backend in keys.items():
            if backend in named:
                text = f"is {backend!r}, and sessions end with a broker that keeps nothing on disk; write 'log'"
                yield key, text, "storage.durability"
    for section, urls in (("redis", settings.redis.url.split(",")), ("postgres", [settings.postgres.url])):
        if section in named and any(urlsplit(url).password for url in urls):
            yield f"{section}.url", "holds a password; put it into a file, and name that in password_file"
    journal = settings.journal
    if "journal" in named and journal.max_file_messages <= journal.max_queue_messages:
        text = f"is {journal.max_file_messages}; it must be more than max_queue_messages ({journal.max_queue_messages})"
        yield "journal.max_file_messages", text, "journal.max_queue_messages"
    parts = journal.fragments.split(",") if journal.fragments else []
    if not all(part.strip().isdigit() and int(part) > 0 for part in parts):
        yield "journal.fragments", f"is {journal.fragments!r}; it must be numbers with commas, such as '2,2,2,2'"
