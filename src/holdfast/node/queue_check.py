"""Rules between the settings of client queues."""

from collections.abc import Iterator
from urllib.parse import urlsplit

from holdfast.node.queue_homes import homes_named
from holdfast.node.settings import Settings


def queue_problems(settings: Settings) -> Iterator[tuple[str, ...]]:
    """A key, what is wrong with it, and other keys that this follows from."""
    for name, rule in settings.classes.items():
        if not rule.clients:
            yield f"classes.{name}.clients", "is empty; name the clients of the class, such as 'device-*'"
    named = homes_named(settings)
    if named and not settings.on_disk():
        keys = {"sessions.queue": settings.sessions.queue}
        keys |= {f"classes.{name}.queue": rule.queue for name, rule in settings.classes.items()}
        for key, home in keys.items():
            if home in named:
                text = f"is {home!r}, and sessions end with a broker that keeps nothing on disk; write 'log'"
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
