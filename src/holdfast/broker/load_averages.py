"""Load averages: how much happens per minute, averaged over the last 1, 5 and 15 minutes.

Exponentially weighted, like the load of a Unix machine: what happened t ago counts by e^(-t/window). Three numbers per
total are kept, whatever the traffic. Updates may come at any interval, because each is weighted by the time since the
one before.
"""

import math
from collections.abc import Mapping
from typing import Final

from holdfast.model.time import MINUTE_US

#: Name → length. The names are Mosquitto's.
_WINDOWS_US: Final[Mapping[str, int]] = {f"{minutes}min": minutes * MINUTE_US for minutes in (1, 5, 15)}


class LoadAverages:
    """Averages of totals that only grow. All are 0 at the start."""

    def __init__(self, totals: Mapping[str, int], now_us: int) -> None:
        self._totals = dict(totals)
        self._now_us = now_us
        self._averages: Final = {f"{name}/{window}": 0.0 for name in totals for window in _WINDOWS_US}

    def update(self, totals: Mapping[str, int], now_us: int) -> Mapping[str, float]:
        """Take the totals as of now; the averages, by `<name>/<window>`, per minute."""
        elapsed_us = now_us - self._now_us
        if elapsed_us > 0:
            for name, total in totals.items():
                per_minute = (total - self._totals[name]) * MINUTE_US / elapsed_us
                for window, window_us in _WINDOWS_US.items():
                    key = f"{name}/{window}"
                    before = self._averages[key]
                    self._averages[key] = per_minute + (before - per_minute) * math.exp(-elapsed_us / window_us)
            self._totals = dict(totals)
            self._now_us = now_us
        return self._averages
