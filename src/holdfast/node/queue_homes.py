"""The homes of client queues outside the log: which of them a node uses, and how each is opened.

A home is imported when it is used, because it may need a library that is not installed otherwise.
"""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Final
from urllib.parse import quote, urlsplit, urlunsplit

from holdfast.broker.policy import LOG
from holdfast.durable.queue_store import QueueStore
from holdfast.durable.sessions import SessionStore
from holdfast.model.clock import Clock
from holdfast.model.errors import SettingsError
from holdfast.node.settings import Settings

#: Sessions looked at in one go.
_PAGE: Final = 1000

Opener = Callable[[Settings, Clock], Awaitable[QueueStore]]


def homes_named(settings: Settings) -> set[str]:
    """The homes that the settings speak of."""
    named: set[str] = {settings.sessions.queue, *(rule.queue for rule in settings.classes.values())}
    return named - {LOG}


def homes_used(settings: Settings, sessions: SessionStore) -> set[str]:
    """… and those in which sessions have their queues that were begun under other settings."""
    used: set[str] = set(homes_named(settings))
    last = ""
    while page := sessions.outside(last, _PAGE):
        used.update(record.queue for record in map(sessions.record, page) if record is not None)
        last = page[-1]
    return used


async def open_homes(settings: Settings, clock: Clock, names: set[str]) -> dict[str, QueueStore]:
    """SettingsError if a home cannot be used as the settings want it."""
    unknown = names - OPENERS.keys()
    if unknown:
        raise SettingsError(
            f"sessions have their queues in {', '.join(sorted(unknown))}, which this Holdfast cannot use"
        )
    homes: dict[str, QueueStore] = {}
    try:
        for name in sorted(names):
            homes[name] = await OPENERS[name](settings, clock)
    except BaseException:
        for home in homes.values():
            await home.close()
        raise
    return homes


async def _journal(settings: Settings, clock: Clock) -> QueueStore:
    try:
        from holdfast.storage.journal.options import JournalOptions
        from holdfast.storage.journal.state_file import Backups
        from holdfast.storage.journal.store import JournalStore
    except ImportError as error:
        raise _missing("journal", error) from error
    journal = settings.journal
    fragments = tuple(int(part) for part in journal.fragments.split(",")) if journal.fragments else None
    options = JournalOptions(
        durability=journal.durability,
        sync_interval_s=journal.sync_interval_s,
        fragments=fragments,
        max_queue_messages=journal.max_queue_messages,
        max_file_messages=journal.max_file_messages,
        backups=Backups(journal.backup_files, int(journal.backup_days * 86_400)),
        max_open_queues=journal.max_open_queues,
        idle_s=journal.idle_s,
    )
    return await JournalStore.open(journal.folder or settings.storage.data / "queues", clock, options)


async def _redis(settings: Settings, clock: Clock) -> QueueStore:
    try:
        from holdfast.storage.redis.options import RedisOptions
        from holdfast.storage.redis.queues import RedisQueues
    except ImportError as error:
        raise _missing("redis", error) from error
    redis = settings.redis
    options = RedisOptions(
        urls=tuple(_with_password(url.strip(), settings, "redis") for url in redis.url.split(",")),
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
    try:
        from holdfast.storage.postgres.options import PostgresOptions
        from holdfast.storage.postgres.queues import PostgresQueues
    except ImportError as error:
        raise _missing("postgres", error) from error
    postgres = settings.postgres
    options = PostgresOptions(
        url=_with_password(postgres.url, settings, "postgres"),
        schema=postgres.schema,
        timeout_s=postgres.timeout_s,
        give_up_s=postgres.give_up_s,
        connections=postgres.connections,
        synchronous_commit=postgres.synchronous_commit or "",
    )
    return PostgresQueues(options, clock)


def _missing(home: str, error: ImportError) -> SettingsError:
    install = f"pip install 'holdfast[{home}]'"
    return SettingsError(
        f"queue = {home!r} needs a library that is not installed ({error.name}); install it: {install}"
    )


def _with_password(url: str, settings: Settings, home: str) -> str:
    """The URL with the password that a file holds: settings themselves are shown to whoever asks for them."""
    path = settings.redis.password_file if home == "redis" else settings.postgres.password_file
    if path is None:
        return url
    lines = path.read_text(encoding="utf-8").splitlines()
    parts = urlsplit(url)
    user, _at, host = parts.netloc.rpartition("@")
    secret = quote(lines[0] if lines else "", safe="")
    return urlunsplit(parts._replace(netloc=f"{user}:{secret}@{host}"))


#: Every home that a queue can have.
OPENERS: Final[Mapping[str, Opener]] = MappingProxyType({"journal": _journal, "redis": _redis, "postgres": _postgres})
