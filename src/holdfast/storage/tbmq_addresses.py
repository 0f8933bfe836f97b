"""Where a TBMQ has its queues, named by an address: that of a home of queues, behind `tbmq+`.

tbmq+postgresql://user@host/thingsboard_mqtt_broker         the tables of a TBMQ 1.x
tbmq+redis://host:6379/0, tbmq+redis+cluster://host,host    the keys of a TBMQ 2.x; rediss for TLS
"""

from typing import Final

from holdfast.model.clock import Clock
from holdfast.model.errors import SettingsError
from holdfast.storage.queue_addresses import HomeAddress, missing_library, parse_home, postgres_url, redis_urls
from holdfast.storage.tbmq import TbmqSource

_PREFIX: Final = "tbmq+"


def parse_tbmq(address: str) -> HomeAddress | None:
    """None for an address of something else. SettingsError says what would be right."""
    if not address.startswith(_PREFIX):
        return None
    home = parse_home(address.removeprefix(_PREFIX))
    if home.folder is not None or home.name:
        raise SettingsError(f"{address!r}: a TBMQ is named by tbmq+postgresql://HOST/DATABASE or tbmq+redis://HOST/0")
    return home


async def open_tbmq(home: HomeAddress, clock: Clock, password: str | None = None) -> TbmqSource:
    """SettingsError: it is not there, or a library is missing."""
    try:
        if home.kind == "postgres":
            from holdfast.storage.postgres.tbmq import TbmqPostgres

            return await TbmqPostgres.open(postgres_url(home, password))
        from holdfast.storage.redis.options import RedisOptions
        from holdfast.storage.redis.tbmq import TbmqRedis
    except ImportError as error:
        raise missing_library(home, error) from error
    return TbmqRedis(RedisOptions(redis_urls(home, password), cluster=home.scheme.endswith("+cluster")), clock)
