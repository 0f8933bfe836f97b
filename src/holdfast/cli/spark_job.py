"""What every job on Spark has in common: it shows how far it is, says what went wrong, and sums up what it did.

    with job("learn", as_json=as_json) as run:
        found = learn(…, run.progress)
        run.sum_up({"patterns": 5}, "5 patterns in 1,200,000 messages")

Exit codes: 0 done, 1 it cannot go on, 2 wrong usage, 130 Ctrl-C. A job may have more; it says so.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import typer

from holdfast.cli.commands import WRONG_USAGE, fail
from holdfast.cli.meter import Meter
from holdfast.cli.spark_options import FAILED, INTERRUPTED
from holdfast.model.errors import HoldfastError, SettingsError


class Job:
    """A job under way."""

    def __init__(self, meter: Meter, *, as_json: bool) -> None:
        self._meter: Final = meter
        self._as_json: Final = as_json
        self._began_s: Final = time.monotonic()
        self._row: dict[str, object] = {}
        self._words = ""

    def progress(self, share: float | None, words: str) -> None:
        """How far it is, from 0 to 1, and what is being done. May be called often."""
        if self._meter.is_due():
            self._meter.update(share, words)

    def begin(self, words: str) -> None:
        """A step begins that takes a while, and tells nothing by itself: said at once."""
        self._meter.update(None, words)

    def sum_up(self, row: dict[str, object], words: str) -> None:
        """What it did: for machines one line of JSON, for people a sentence; printed when the job has ended."""
        self._row, self._words = row, words

    def print_summary(self) -> None:
        seconds = time.monotonic() - self._began_s
        if self._as_json:
            typer.echo(json.dumps(self._row | {"seconds": round(seconds, 3)}, ensure_ascii=False))
        elif self._words:
            typer.echo(f"{self._words}, in {seconds:.1f} s")


@contextmanager
def job(name: str, *, as_json: bool, stopped: str = "") -> Iterator[Job]:
    """Run a job; `stopped` is what Ctrl-C leaves behind, in words."""
    with Meter(name, ticking=True) as meter:
        # At once: it takes seconds to import Spark alone.
        meter.update(None, "starting")
        run = Job(meter, as_json=as_json)
        try:
            yield run
        except SettingsError as error:
            fail(str(error), WRONG_USAGE)
        except HoldfastError as error:
            fail(str(error), FAILED)
        except KeyboardInterrupt:
            typer.echo(f"holdfast: stopped{'; ' if stopped else ''}{stopped}", err=True)
            raise typer.Exit(INTERRUPTED) from None
    run.print_summary()
