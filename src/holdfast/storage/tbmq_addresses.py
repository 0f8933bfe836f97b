"""Addresses of the queues of a TBMQ: that of a queue backend, behind `tbmq+`.

tbmq+postgresql://user@host/thingsboard_mqtt_broker         the tables of a TBMQ 1.x
tbmq+redis://host:6379/0, tbmq+redis+cluster://host,host    the keys of a TBMQ 2.x; rediss for TLS
"""

from typing import Final

from holdfast.model.clock import Clock
from holdfast.model.errors import SettingsError
from holdfast.storage.queue_addresses import BackendAddress, missing_library, parse_backend, postgres_url, redis_urls
from holdfast.storage.tbmq import TbmqSource

_PREFIX: Final = "tbmq+"


def parse_tbmq(address: str) -> BackendAddress | None:
    """Parse an address; None if it is not of a TBMQ. SettingsError says what would be right."""
    if not address.startswith(_PREFIX):
        return None
    backend = parse_backend(address.removeprefix(_PREFIX))
    if backend.folder is not None or backend.name:
        raise SettingsError(f"{address!r}: a TBMQ is named by tbmq+postgresql://HOST/DATABASE or tbmq+redis://HOST/0")
    return backend


async def open_tbmq(backend: BackendAddress, clock: Clock, password: str | None = None) -> TbmqSource:
    """Open the queues. SettingsError: there is no TBMQ, or a library is missing."""
    try:
        if backend.kind == "postgres":
            from holdfast.storage.postgres.tbmq import TbmqPostgres

            return await TbmqPostgres.open(postgres_url(backend, password))
        from holdfast.storage.redis.options import RedisOptions
        from holdfast.storage.redis.tbmq import TbmqRedis
    except ImportError as error:
        raise missing_library(backend, error) from error
    return TbmqRedis(RedisOptions(redis_urls(backend, password), cluster=backend.scheme.endswith("+cluster")), clock)
