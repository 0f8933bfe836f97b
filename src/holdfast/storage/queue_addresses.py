"""Homes of client queues named by an address, for commands that work on them without a broker's settings.

    journal:/var/lib/holdfast/queues                a folder
    redis://host:6379/0#holdfast:                   behind `#`: the prefix of the keys
    rediss://user@host/0                            with TLS
    redis+cluster://host1:7000,host2:7000           members of a Redis Cluster; rediss+cluster for TLS
    postgresql://user@host/database#holdfast        behind `#`: the schema

A password never stands in an address, where every user of the machine can read it: it comes from a file or a variable.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote, urlsplit, urlunsplit

from holdfast.durable.queue_store import QueueStore
from holdfast.model.clock import Clock
from holdfast.model.errors import SettingsError
from holdfast.storage.journal.commit_file import commit_files
from holdfast.storage.journal.store import JournalStore
from holdfast.storage.journal.view import JournalView
from holdfast.storage.rocks.failures import FolderHeldError
from holdfast.storage.rocks.folder_lock import FolderLock

_FORMS: Final = "journal:FOLDER, redis://HOST, rediss://HOST, redis+cluster://HOSTS, postgresql://HOST/DATABASE"
_REDIS: Final = ("redis", "rediss", "redis+cluster", "rediss+cluster")
_POSTGRES: Final = ("postgresql", "postgres")


class HomeAddress(NamedTuple):
    """An address, taken apart."""

    scheme: str
    #: Of a journal.
    folder: Path | None
    #: Of a server, without what is behind `#`.
    url: str
    #: What is behind `#`: the prefix or the schema; empty for the default.
    name: str

    @property
    def kind(self) -> str:
        """What settings and sessions call it."""
        if self.folder is not None:
            return "journal"
        return "redis" if self.scheme in _REDIS else "postgres"


def parse_home(address: str) -> HomeAddress:
    """SettingsError says what would be right."""
    scheme, found, rest = address.partition(":")
    if scheme == "journal" and rest:
        return HomeAddress(scheme, Path(rest), "", "")
    if not found or scheme not in (*_REDIS, *_POSTGRES):
        raise SettingsError(f"{address!r} names no home of queues; right would be one of {_FORMS}")
    parts = urlsplit(address)
    if parts.password is not None:
        raise SettingsError("the address holds a password; put it into a file or a variable, and name that")
    return HomeAddress(scheme, None, urlunsplit(parts._replace(fragment="")), parts.fragment)


async def open_home(address: str, clock: Clock, password: str | None = None, *, create: bool = False) -> QueueStore:
    """A home to be changed. SettingsError: a broker has it, it is not there, or a library is missing."""
    home = parse_home(address)
    if home.folder is not None:
        _check_folder(home.folder, create=create)
        return await JournalStore.open(home.folder, clock)
    return _open_server(home, clock, password)


async def look_at_home(address: str, clock: Clock, password: str | None = None) -> QueueStore:
    """A home to be looked at, while a broker has it or not."""
    home = parse_home(address)
    if home.folder is None:
        return _open_server(home, clock, password)
    _check_folder(home.folder, create=False)
    if commit_files(home.folder) and not _is_held(home.folder):
        # A broker was killed: its last changes have to be brought home before they can be seen.
        return await JournalStore.open(home.folder, clock)
    return JournalView(home.folder, clock)


def _check_folder(folder: Path, *, create: bool) -> None:
    if not create and not folder.is_dir():
        raise SettingsError(f"{folder} is no journal of queues: there is no such folder")


def _is_held(folder: Path) -> bool:
    try:
        FolderLock.acquire(folder).release()
    except FolderHeldError:
        return True
    return False


def missing_library(home: HomeAddress, error: ImportError) -> SettingsError:
    """What to install."""
    return SettingsError(f"{error.name} is not installed; install it: pip install 'holdfast[{home.kind}]'")


def redis_urls(home: HomeAddress, password: str | None) -> tuple[str, ...]:
    """Of each member."""
    scheme, _cluster, _ = home.scheme.partition("+cluster")
    parts = urlsplit(home.url)
    return tuple(
        urlunsplit(parts._replace(scheme=scheme, netloc=_with_password(host, password)))
        for host in _hosts(parts.netloc)
    )


def postgres_url(home: HomeAddress, password: str | None) -> str:
    parts = urlsplit(home.url)
    return urlunsplit(parts._replace(netloc=_with_password(parts.netloc, password)))


def _open_server(home: HomeAddress, clock: Clock, password: str | None) -> QueueStore:
    opener: Callable[[HomeAddress, Clock, str | None], QueueStore] = _redis if home.scheme in _REDIS else _postgres
    try:
        return opener(home, clock, password)
    except ImportError as error:
        raise missing_library(home, error) from error


def _redis(home: HomeAddress, clock: Clock, password: str | None) -> QueueStore:
    from holdfast.storage.redis.options import RedisOptions
    from holdfast.storage.redis.queues import RedisQueues

    urls = redis_urls(home, password)
    cluster = home.scheme.endswith("+cluster")
    return RedisQueues(RedisOptions(urls, cluster=cluster, prefix=home.name or RedisOptions(urls).prefix), clock)


def _postgres(home: HomeAddress, clock: Clock, password: str | None) -> QueueStore:
    from holdfast.storage.postgres.options import PostgresOptions
    from holdfast.storage.postgres.queues import PostgresQueues

    url = postgres_url(home, password)
    return PostgresQueues(PostgresOptions(url, schema=home.name or PostgresOptions(url).schema), clock)


def _hosts(netloc: str) -> list[str]:
    """Each with the user that stands in front of the first."""
    user, found, hosts = netloc.rpartition("@")
    return [f"{user}{found}{host}" for host in hosts.split(",")]


def _with_password(netloc: str, password: str | None) -> str:
    if password is None:
        return netloc
    user, _at, host = netloc.rpartition("@")
    return f"{user}:{quote(password, safe='')}@{host}"
