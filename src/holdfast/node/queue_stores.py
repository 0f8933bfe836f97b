"""Queue backends outside the log: which of them a node uses, and how each is opened.

A backend is imported when it is used, because it may need a library that is not installed.
"""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final
from urllib.parse import quote, urlsplit, urlunsplit

from holdfast.broker.policy import LOG
from holdfast.durable.queues.queue_store import QueueStore
from holdfast.durable.sessions.session_store import SessionStore
from holdfast.model.clock import Clock
from holdfast.model.errors import SettingsError
from holdfast.node.settings.tree import Settings

#: Sessions read per page.
_PAGE: Final = 1000

Opener = Callable[[Settings, Clock], Awaitable[QueueStore]]


def named_backends(settings: Settings) -> set[str]:
    """The backends that the settings name."""
    named: set[str] = {settings.sessions.queue, *(rule.queue for rule in settings.classes.values())}
    return named - {LOG}


def used_backends(settings: Settings, sessions: SessionStore) -> set[str]:
    """The backends that the settings name, and those of sessions that began under other settings."""
    used: set[str] = set(named_backends(settings))
    last = ""
    while page := sessions.with_external_queue(last, _PAGE):
        used.update(record.queue for record in map(sessions.record, page) if record is not None)
        last = page[-1]
    return used


async def open_queue_stores(settings: Settings, clock: Clock, names: set[str]) -> dict[str, QueueStore]:
    """By name. SettingsError if a backend cannot be used with these settings."""
    unknown = names - OPENERS.keys()
    if unknown:
        raise SettingsError(
            f"sessions have their queues in {', '.join(sorted(unknown))}, which this Holdfast cannot use"
        )
    backends: dict[str, QueueStore] = {}
    try:
        for name in sorted(names):
            backends[name] = await _open(name, settings, clock)
    except BaseException:
        for backend in backends.values():
            await backend.close()
        raise
    return backends


async def _open(name: str, settings: Settings, clock: Clock) -> QueueStore:
    try:
        return await OPENERS[name](settings, clock)
    except ImportError as error:
        install = f"pip install 'holdfast[{name}]'"
        raise SettingsError(
            f"queue = {name!r} needs a library that is not installed ({error.name}); install it: {install}"
        ) from error


async def _journal(settings: Settings, clock: Clock) -> QueueStore:
    from holdfast.storage.journal.options import JournalOptions
    from holdfast.storage.journal.queue.state_file import StateBackups
    from holdfast.storage.journal.store import JournalStore

    journal = settings.journal
    fragments = tuple(int(part) for part in journal.fragments.split(",")) if journal.fragments else None
    options = JournalOptions(
        durability=journal.durability,
        sync_interval_s=journal.sync_interval_s,
        fragments=fragments,
        max_queue_messages=journal.max_queue_messages,
        max_file_messages=journal.max_file_messages,
        backups=StateBackups(journal.backup_files, int(journal.backup_days * 86_400)),
        max_open_queues=journal.max_open_queues,
        idle_s=journal.idle_s,
    )
    return await JournalStore.open(journal.folder or settings.storage.data / "queues", clock, options)


async def _redis(settings: Settings, clock: Clock) -> QueueStore:
    from holdfast.storage.redis.options import RedisOptions
    from holdfast.storage.redis.queues import RedisQueues

    redis = settings.redis
    options = RedisOptions(
        urls=tuple(_with_password(url.strip(), redis.password_file) for url in redis.url.split(",")),
        cluster=redis.cluster,
        prefix=redis.prefix,
        replicas=redis.replicas,
        replicas_timeout_s=redis.replicas_timeout_s,
        timeout_s=redis.timeout_s,
        give_up_s=redis.give_up_s,
        connections=redis.connections,
        pipelined=redis.pipelined,
        tls_ca=str(redis.tls_ca or ""),
        tls_certificate=str(redis.tls_certificate or ""),
        tls_key=str(redis.tls_key or ""),
    )
    return RedisQueues(options, clock)


async def _postgres(settings: Settings, clock: Clock) -> QueueStore:
    from holdfast.storage.postgres.options import PostgresOptions
    from holdfast.storage.postgres.queues import PostgresQueues

    postgres = settings.postgres
    options = PostgresOptions(
        url=_with_password(postgres.url, postgres.password_file),
        schema=postgres.schema,
        timeout_s=postgres.timeout_s,
        give_up_s=postgres.give_up_s,
        connections=postgres.connections,
        synchronous_commit=postgres.synchronous_commit or "",
    )
    return PostgresQueues(options, clock)


def _with_password(url: str, path: Path | None) -> str:
    """The URL with the password from its file. Settings hold no password, because commands print them."""
    if path is None:
        return url
    lines = path.read_text(encoding="utf-8").splitlines()
    parts = urlsplit(url)
    user, _at, host = parts.netloc.rpartition("@")
    secret = quote(lines[0] if lines else "", safe="")
    return urlunsplit(parts._replace(netloc=f"{user}:{secret}@{host}"))


#: Every queue backend. A new one needs its line here.
OPENERS: Final[Mapping[str, Opener]] = MappingProxyType({"journal": _journal, "redis": _redis, "postgres": _postgres})
