"""Which commits are synced on the event loop instead of the commit thread.

A hand-over to the commit thread and back costs more than the sync of a small commit on a quick disk. But the loop
stands still for as long as such a sync takes, so it is chosen by what syncs took lately:

1. Only a small commit is synced on the loop, when little else waits for the disk and RocksDB writes no table.
2. A slow sync, on whichever thread, sends all commits to the commit thread for a minute.
3. The second slow sync on the loop within an hour sends all to the commit thread until the broker is started again.

Nothing bounds the first slow sync on the loop: it takes as long as the disk takes.
"""

from typing import Final

from holdfast.durable.commit import SyncCounts

#: Messages and session changes of a commit. More of them pay for the hand-over.
MAX_CHANGES: Final = 32
#: Written since the last sync. 8 MB made a sync 7 ms long, 64 MB 22 ms.
MAX_UNSYNCED_BYTES: Final = 1 << 20
SLOW_S: Final = 0.002
_PAUSE_S: Final = 60.0
_HOUR_S: Final = 3600.0


class LoopSyncRule:
    """Decides by the durations that it is told. All times are of one monotonic clock."""

    def __init__(self, *, enabled: bool = True) -> None:
        self.counts: Final = SyncCounts()
        self._enabled = enabled
        self._paused_until_s = float("-inf")
        self._slow_on_loop_s = float("-inf")

    def allows(self, changes: int, unsynced_bytes: int, now_s: float) -> bool:
        """Whether a commit may be synced on the loop, as far as its size and earlier syncs tell."""
        return (
            changes <= MAX_CHANGES
            and self._enabled
            and unsynced_bytes <= MAX_UNSYNCED_BYTES
            and now_s >= self._paused_until_s
        )

    def synced_on_loop(self, took_s: float, now_s: float) -> None:
        counts = self.counts
        counts.on_loop += 1
        counts.seconds.add(took_s)
        counts.longest_on_loop_us = max(counts.longest_on_loop_us, int(took_s * 1e6))
        if took_s >= SLOW_S:
            if now_s - self._slow_on_loop_s < _HOUR_S:
                self._enabled = False
            self._slow_on_loop_s = now_s
            self._paused_until_s = now_s + _PAUSE_S

    def synced_on_thread(self, took_s: float, now_s: float) -> None:
        self.counts.on_thread += 1
        self.counts.seconds.add(took_s)
        if took_s >= SLOW_S:
            self._paused_until_s = now_s + _PAUSE_S
