"""Addresses of queue backends, for commands that work on them without a broker's settings.

    journal:/var/lib/holdfast/queues                a folder
    redis://host:6379/0#holdfast:                   behind `#`: the prefix of the keys
    rediss://user@host/0                            with TLS
    redis+cluster://host1:7000,host2:7000           members of a Redis Cluster; rediss+cluster for TLS
    postgresql://user@host/database#holdfast        behind `#`: the schema

    tbmq+postgresql://user@host/thingsboard_mqtt_broker         the queues of a TBMQ 1.x, in its tables
    tbmq+redis://host:6379/0, tbmq+redis+cluster://host,host    those of a TBMQ 2.x, in its keys; rediss for TLS

A password is never part of an address, which every user of the machine can read: it comes from a file or a variable.
"""

from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote, urlsplit, urlunsplit

from holdfast.durable.queues.queue_store import QueueStore
from holdfast.model.clock import Clock
from holdfast.model.errors import SettingsError
from holdfast.storage.folder_lock import FolderLock
from holdfast.storage.journal.commit.commit_file import commit_files
from holdfast.storage.journal.store import JournalStore
from holdfast.storage.journal.view import JournalView
from holdfast.storage.rocks.engine.failures import FolderHeldError
from holdfast.storage.tbmq import TbmqSource

_FORMS: Final = "journal:FOLDER, redis://HOST, rediss://HOST, redis+cluster://HOSTS, postgresql://HOST/DATABASE"
_REDIS: Final = ("redis", "rediss", "redis+cluster", "rediss+cluster")
_POSTGRES: Final = ("postgresql", "postgres")
_TBMQ: Final = "tbmq+"


class BackendAddress(NamedTuple):
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
        """The name of the backend in settings and sessions."""
        if self.folder is not None:
            return "journal"
        return "redis" if self.scheme in _REDIS else "postgres"


def parse_backend(address: str) -> BackendAddress:
    """Parse an address; SettingsError says what would be right."""
    scheme, found, rest = address.partition(":")
    if scheme == "journal" and rest:
        return BackendAddress(scheme, Path(rest), "", "")
    if not found or scheme not in (*_REDIS, *_POSTGRES):
        raise SettingsError(f"{address!r} names no queue backend; right would be one of {_FORMS}")
    parts = urlsplit(address)
    if parts.password is not None:
        raise SettingsError("the address holds a password; put it into a file or a variable, and name that")
    return BackendAddress(scheme, None, urlunsplit(parts._replace(fragment="")), parts.fragment)


async def open_backend(address: str, clock: Clock, password: str | None = None, *, create: bool = False) -> QueueStore:
    """Open a backend for changes. SettingsError: a broker uses it, it does not exist, or a library is missing."""
    backend = parse_backend(address)
    if backend.folder is not None:
        _check_folder(backend.folder, create=create)
        return await JournalStore.open(backend.folder, clock)
    return _open_server(backend, clock, password)


async def view_backend(address: str, clock: Clock, password: str | None = None) -> QueueStore:
    """Open a backend for reading, with or without a running broker."""
    backend = parse_backend(address)
    if backend.folder is None:
        return _open_server(backend, clock, password)
    _check_folder(backend.folder, create=False)
    if commit_files(backend.folder) and not _is_held(backend.folder):
        # A broker was killed: its last changes must be recovered first.
        return await JournalStore.open(backend.folder, clock)
    return JournalView(backend.folder, clock)


def _check_folder(folder: Path, *, create: bool) -> None:
    if not create and not folder.is_dir():
        raise SettingsError(f"{folder} is no journal of queues: there is no such folder")


def _is_held(folder: Path) -> bool:
    try:
        FolderLock.acquire(folder).release()
    except FolderHeldError:
        return True
    return False


def _missing_library(backend: BackendAddress, error: ImportError) -> SettingsError:
    """An error that names the package to install."""
    return SettingsError(f"{error.name} is not installed; install it: pip install 'holdfast[{backend.kind}]'")


def _redis_urls(backend: BackendAddress, password: str | None) -> tuple[str, ...]:
    """Of each member, with the user of the first."""
    scheme, _cluster, _ = backend.scheme.partition("+cluster")
    parts = urlsplit(backend.url)
    user, at, hosts = parts.netloc.rpartition("@")
    return tuple(
        urlunsplit(parts._replace(scheme=scheme, netloc=_with_password(f"{user}{at}{host}", password)))
        for host in hosts.split(",")
    )


def _postgres_url(backend: BackendAddress, password: str | None) -> str:
    parts = urlsplit(backend.url)
    return urlunsplit(parts._replace(netloc=_with_password(parts.netloc, password)))


def _open_server(backend: BackendAddress, clock: Clock, password: str | None) -> QueueStore:
    try:
        return (_redis if backend.kind == "redis" else _postgres)(backend, clock, password)
    except ImportError as error:
        raise _missing_library(backend, error) from error


def _redis(backend: BackendAddress, clock: Clock, password: str | None) -> QueueStore:
    from holdfast.storage.redis.options import RedisOptions
    from holdfast.storage.redis.queues import RedisQueues

    urls = _redis_urls(backend, password)
    cluster = backend.scheme.endswith("+cluster")
    return RedisQueues(RedisOptions(urls, cluster=cluster, prefix=backend.name or RedisOptions(urls).prefix), clock)


def _postgres(backend: BackendAddress, clock: Clock, password: str | None) -> QueueStore:
    from holdfast.storage.postgres.options import PostgresOptions
    from holdfast.storage.postgres.queues import PostgresQueues

    url = _postgres_url(backend, password)
    return PostgresQueues(PostgresOptions(url, schema=backend.name or PostgresOptions(url).schema), clock)


def _with_password(netloc: str, password: str | None) -> str:
    if password is None:
        return netloc
    user, _at, host = netloc.rpartition("@")
    return f"{user}:{quote(password, safe='')}@{host}"


def parse_tbmq(address: str) -> BackendAddress | None:
    """Parse an address; None if it is not of a TBMQ. SettingsError says what would be right."""
    if not address.startswith(_TBMQ):
        return None
    backend = parse_backend(address.removeprefix(_TBMQ))
    if backend.folder is not None or backend.name:
        raise SettingsError(f"{address!r}: a TBMQ is named by tbmq+postgresql://HOST/DATABASE or tbmq+redis://HOST/0")
    return backend


async def open_tbmq(backend: BackendAddress, clock: Clock, password: str | None = None) -> TbmqSource:
    """Open the queues. SettingsError: there is no TBMQ, or a library is missing."""
    try:
        if backend.kind == "postgres":
            from holdfast.storage.postgres.tbmq import TbmqPostgres

            return await TbmqPostgres.open(_postgres_url(backend, password))
        from holdfast.storage.redis.options import RedisOptions
        from holdfast.storage.redis.tbmq import TbmqRedis
    except ImportError as error:
        raise _missing_library(backend, error) from error
    return TbmqRedis(RedisOptions(_redis_urls(backend, password), cluster=backend.scheme.endswith("+cluster")), clock)
