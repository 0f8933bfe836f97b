"""Drops the oldest generations of a data folder, as retention does."""

from pathlib import Path

from holdfast.durable.zones import Zone
from holdfast.node.system_clock import SystemClock
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.log.maintenance import Maintenance
from holdfast.storage.rocks.log.startup import open_log


def drop_oldest(data: Path, count: int, shards: int = 2, layout: str = "learned") -> None:
    """Drop generations of the default zone of a broker that is stopped."""
    engine = Engine.open(data, reserve_bytes=0)
    log = open_log(engine, [], Zone("default", shards=shards, layout=layout), [], SystemClock(), "test")
    for _generation in range(count):
        Maintenance(log).drop_oldest(log.zone_logs["default"])
    log.close()
