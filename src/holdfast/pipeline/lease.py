"""What a pipeline says about how far it has come, to wherever it reads from, so that retention does not pass it."""

import time
from collections.abc import Mapping
from pathlib import Path

from holdfast.history.flight_client import FlightHistory
from holdfast.pipeline.options import Options
from holdfast.storage.rocks.leases import renew_lease


def renew(options: Options, name: str, positions: Mapping[int, int]) -> None:
    """Everything up to these positions, by shard, is done; what is behind them is still needed."""
    done = {shard: max(0, position_us) for shard, position_us in positions.items()}
    if not done:
        return
    if options.path:
        renew_lease(Path(options.path), name, done, time.time_ns() // 1000)
        return
    with FlightHistory(options.endpoint) as history:
        history.renew(name, done)
