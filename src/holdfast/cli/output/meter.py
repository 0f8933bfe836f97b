"""Progress of a long command, on standard error: a bar on a terminal, a line now and then elsewhere."""

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

#: Between two updates on a terminal, and between two lines elsewhere.
_PICTURE_S: Final = 0.1
_LINE_S: Final = 10.0
_TICK_S: Final = 1.0


class Meter:
    """Shows a share and a text. `update` may be called for every message."""

    def __init__(
        self,
        what: str,
        *,
        shown: bool = True,
        console: Console | None = None,
        now_s: Callable[[], float] = time.monotonic,
        ticking: bool = False,
    ) -> None:
        """Without `shown` it prints nothing, because the terminal is used for something else.

        With `ticking` it prints now and then even without `update`, for example while Spark starts.
        """
        self._what: Final = what
        self._now_s: Final = now_s
        self._console: Final = console or Console(stderr=True, highlight=False, soft_wrap=True)
        self._shown: Final = shown
        self._bar: Progress | None = None
        if shown and self._console.is_terminal:
            columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
            told = TextColumn("{task.fields[told]}")
            self._bar = Progress(*columns, told, TimeElapsedColumn(), console=self._console, transient=True)
        self._every_s: Final = _LINE_S if self._bar is None else _PICTURE_S
        self._began_s: Final = now_s()
        self._next_s = self._began_s + self._every_s
        self._told = ""
        self._ended: Final = threading.Event()
        self._ticker: Final = threading.Thread(target=self._tick, daemon=True) if ticking and not self._bar else None

    def __enter__(self) -> Self:
        if self._ticker is not None:
            self._ticker.start()
        if self._bar is not None:
            self._bar.start()
            self._bar.add_task(self._what, total=None, told="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Show nothing from here on."""
        if self._bar is not None:
            self._bar.stop()
        self._ended.set()
        if self._ticker is not None:
            self._ticker.join()

    def is_due(self) -> bool:
        """Whether an update is due. Making the text costs more than this call."""
        return self._shown and not self._ended.is_set() and self._now_s() >= self._next_s

    def update(self, share: float | None, told: str) -> None:
        """`share` is from 0 to 1; None if it is not known."""
        self._told = told
        self._next_s = self._now_s() + self._every_s
        if self._bar is not None:
            total = None if share is None else 1.0
            self._bar.update(self._bar.task_ids[0], completed=share or 0.0, total=total, told=told)
        elif self._shown:
            percent = "" if share is None else f"{share:.0%}, "
            self._console.print(f"{self._what}: {percent}{told}", markup=False)

    def tick(self) -> None:
        """Print the current step and its time, if an update is due."""
        if self.is_due():
            self._next_s = self._now_s() + self._every_s
            told = f"{self._told}, " if self._told else ""
            self._console.print(f"{self._what}: {told}{self._now_s() - self._began_s:.0f} s", markup=False)

    def _tick(self) -> None:
        while not self._ended.wait(_TICK_S):
            self.tick()
