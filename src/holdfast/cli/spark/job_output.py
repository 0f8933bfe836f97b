"""What every job on Spark prints: its progress, what went wrong, and a summary.

    with job_output("learn", as_json=as_json) as output:
        found = run_learn(…, output.progress)
        output.summarize({"patterns": 5}, "5 patterns in 1,200,000 messages")

Exit codes: 0 done, 1 it cannot go on, 2 wrong usage, 130 Ctrl-C. A command that has more says so.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import typer

from holdfast.cli.commands import FAILED, INTERRUPTED, exit_on, fail
from holdfast.cli.output.file import open_output
from holdfast.cli.output.meter import Meter
from holdfast.model.errors import HoldfastError, SettingsError


class JobOutput:
    """The output of a job that runs."""

    def __init__(self, meter: Meter, *, as_json: bool) -> None:
        self._meter: Final = meter
        self._as_json: Final = as_json
        self._began_s: Final = time.monotonic()
        self._row: dict[str, object] = {}
        self._text = ""

    def progress(self, share: float | None, text: str) -> None:
        """The share that is done, from 0 to 1, and what is being done. May be called often."""
        if self._meter.is_due():
            self._meter.update(share, text)

    def begin(self, text: str) -> None:
        """A long step begins that has no progress: shown at once."""
        self._meter.update(None, text)

    def summarize(self, row: dict[str, object], text: str) -> None:
        """What was done, as one line of JSON or as a sentence; printed when the job has ended."""
        self._row, self._text = row, text

    def print_summary(self) -> None:
        seconds = time.monotonic() - self._began_s
        if self._as_json:
            typer.echo(json.dumps(self._row | {"seconds": round(seconds, 3)}, ensure_ascii=False))
        elif self._text:
            typer.echo(f"{self._text}, in {seconds:.1f} s")


@contextmanager
def job_output(name: str, *, as_json: bool, stopped: str = "") -> Iterator[JobOutput]:
    """Run a job; `stopped` says what Ctrl-C leaves behind."""
    with Meter(name, ticking=True) as meter:
        # At once: importing Spark takes seconds.
        meter.update(None, "starting")
        output = JobOutput(meter, as_json=as_json)
        try:
            with exit_on(HoldfastError, code=FAILED), exit_on(SettingsError):
                yield output
        except KeyboardInterrupt:
            typer.echo(f"holdfast: stopped{'; ' if stopped else ''}{stopped}", err=True)
            raise typer.Exit(INTERRUPTED) from None
    output.print_summary()


def write_file(path: Path, content: bytes) -> None:
    """Replace a file whole; an error ends the program."""
    try:
        with open_output(path) as sink:
            sink.write(content)
    except OSError as error:
        fail(f"{path}: {error.strerror or error}", FAILED)
