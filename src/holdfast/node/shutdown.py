"""The end of a node within a time limit, whatever clients and disks do.

    signal while it opens ─▶ cancel that ─▶ close ─▶ exit 0
    signal ─▶ stop accepting ─▶ commit and acknowledge ─▶ DISCONNECT 0x8B ─▶ sync, close ─▶ exit 0
       └─────────────────────── limits.stop_timeout_s ───────────────────────┘ then: sync ─▶ exit 1
    second signal ─▶ gone

1. What was acknowledged is safe at every moment: with `fsync` it was synced before its acknowledgement, with
   `os` the kernel has it, and `memory` promises nothing beyond the process.
2. A second signal has the system's default action: no code of ours runs, so none can hold it up.
3. A separate thread keeps the limit, because a loop that hangs in a sync cannot; and behind it an alarm of the system,
   because a library that holds the GIL would stop the thread as well.
"""

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from typing import Final

import structlog

_log = structlog.get_logger()

_STOPS: Final = (signal.SIGINT, signal.SIGTERM)
#: The last part of the limit, half of it for a last sync: in seconds, and as a share of a short limit.
_LAST_S: Final = 1.0
_LAST_SHARE: Final = 0.2


def stop_on_signals(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
    """The first SIGINT or SIGTERM calls `stop`; a second one ends the process."""

    def first() -> None:
        for number in _STOPS:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)
        # Its default action would end the process, which SIGHUP is not for.
        loop.remove_signal_handler(signal.SIGHUP)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        stop()

    for number in _STOPS:
        loop.add_signal_handler(number, first)


class StopRequest:
    """A request to stop a node. Made while the node opens, which may take until its cluster is there, it cancels that.

    Requires: made and used in the task that opens the node.
    """

    def __init__(self, on_cancelled: Callable[[], None]) -> None:
        """`on_cancelled` is called if the request comes while the node opens."""
        self.made: Final = asyncio.Event()
        self._on_cancelled: Final = on_cancelled
        self._opening = asyncio.current_task()

    def make(self) -> None:
        """Request it."""
        self.made.set()
        if self._opening is not None:
            self._on_cancelled()
            self._opening.cancel()

    def opened(self) -> None:
        """The node is open: from now on a request is only noted."""
        self._opening = None

    def ended_opening(self) -> bool:
        """Whether a cancellation that was caught came from this request."""
        if self._opening is None or not self.made.is_set():
            return False
        return self._opening.uncancel() == 0


class StopDeadline:
    """Ends the process if the shutdown takes too long."""

    def __init__(self) -> None:
        self._done: Final = threading.Event()

    def begin(self, timeout_s: float, sync: Callable[[float], object]) -> None:
        """Start the clock. `sync` is called on another thread, with the seconds that it may take."""
        last_s = min(_LAST_S, timeout_s * _LAST_SHARE)
        signal.setitimer(signal.ITIMER_REAL, timeout_s)
        work = (timeout_s - last_s, last_s / 2, sync)
        threading.Thread(target=self._watch, args=work, name="holdfast-stop", daemon=True).start()

    def met(self) -> None:
        """The shutdown was complete in time."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        self._done.set()

    def _watch(self, wait_s: float, sync_s: float, sync: Callable[[float], object]) -> None:
        if self._done.wait(wait_s):
            return
        _log.error("the stop takes too long, the process ends now", setting="limits.stop_timeout_s")
        try:
            sync(sync_s)
        finally:
            os._exit(1)
