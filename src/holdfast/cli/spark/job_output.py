"""What every job on Spark prints: its progress, what went wrong, and a summary.

    with job_output("learn", as_json=as_json) as output:
        found = run_learn(…, output.progress)
        output.summarize({"patterns": 5}, "5 patterns in 1,200,000 messages")

Progress goes to standard error: a bar on a terminal, a line now and then elsewhere, with `--json` a line of JSON at the
beginning and the end of each step, and each second. The summary goes to standard output, so that a caller gets
nothing else there.

Exit codes: 0 done, 1 it cannot go on, 2 wrong usage, 130 Ctrl-C. A command that has more says so.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import typer

from holdfast.cli.commands import FAILED, INTERRUPTED, exit_on, fail
from holdfast.cli.output.file import open_output
from holdfast.cli.output.meter import Meter
from holdfast.cli.output.text import format_duration, format_size
from holdfast.model.errors import HoldfastError, SettingsError
from holdfast.pipeline.spark.installation import spark_version
from holdfast.pipeline.spark.progress import JobProgress, JobState

#: Seconds between two lines of JSON within a step.
_LINE_S: Final = 1.0
#: From a smaller part of the job nothing follows about the rest.
_LEAST_SHARE: Final = 0.01


class ProgressReport:
    """A state of a job, and what follows from the states before it."""

    def __init__(self, job: str, now_s: Callable[[], float] = time.monotonic) -> None:
        self._job: Final = job
        self._now_s: Final = now_s
        self._began_s: Final = now_s()
        #: The step, when it began, and the rows that it had then: those of an earlier run, or before an interruption.
        self._step = -1
        self._step_s = self._began_s
        self._step_rows = 0
        #: The first share that was known, and when the work on the rest began.
        self._first: tuple[float, float] | None = None
        self._state = JobState("")

    def take(self, state: JobState) -> None:
        now_s = self._now_s()
        begins = state.number != self._step
        if begins:
            self._step, self._step_s, self._step_rows = state.number, now_s, state.rows or 0
        if state.share is not None and (self._first is None or (begins and state.share <= self._first[0])):
            self._first = state.share, now_s
        self._state = state

    @property
    def rows_per_s(self) -> float | None:
        """Of the step, since it began."""
        seconds = self._now_s() - self._step_s
        if self._state.rows is None or seconds <= 0:
            return None
        return (self._state.rows - self._step_rows) / seconds

    @property
    def seconds_left(self) -> float | None:
        """Of the job, if the rest of it takes as long for each part as what is done."""
        share = self._state.share
        if share is None or self._first is None or share - self._first[0] < _LEAST_SHARE:
            return None
        first_share, first_s = self._first
        return (self._now_s() - first_s) * (1.0 - share) / (share - first_share)

    def as_row(self) -> dict[str, object]:
        """The same keys for every job; null where nothing is known."""
        state = self._state
        return {
            "event": "progress",
            "job": self._job,
            "step": state.step,
            "share": _rounded(state.share, 4),
            "rows": state.rows,
            "bytes": state.size_bytes,
            "rows_per_s": _rounded(self.rows_per_s, 1),
            "seconds": _rounded(self._now_s() - self._began_s, 3),
            "seconds_left": _rounded(self.seconds_left, 1),
        }

    def as_text(self) -> str:
        state = self._state
        parts = [] if state.rows is None else [f"{state.rows:,} rows"]
        if state.size_bytes is not None:
            parts.append(format_size(state.size_bytes))
        if self.rows_per_s is not None and state.rows:
            parts.append(f"{self.rows_per_s:,.0f}/s")
        if self.seconds_left is not None and state.share is not None and state.share < 1:
            parts.append(f"{format_duration(self.seconds_left)} left")
        return f"{state.step}: {', '.join(parts)}" if parts else state.step


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


class ProgressOutput:
    """Shows the progress of a job, from the first second on: importing Spark takes seconds."""

    def __init__(self, name: str, *, as_json: bool, first: str = "", whole: bool = True, endless: bool = False) -> None:
        """`first`: the first step. Without `whole` the job is not done when this is; an `endless` one has no share."""
        self._as_json: Final = as_json
        self._whole: Final = whole
        self._first: Final = first or f"starting, with Spark {spark_version()}"
        self._shown = ""
        self._meter: Final = Meter(name, shown=not as_json, ticking=not as_json)
        self._report: Final = ProgressReport(name)
        self._next_s = 0.0
        self.progress: Final = JobProgress(self._tell, endless=endless)

    def __enter__(self) -> Self:
        self._meter.__enter__()
        self.progress.say(self._first)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(done=kind is None and self._whole)

    def close(self, *, done: bool) -> None:
        """Show nothing from here on, but that it is `done`."""
        self.progress.close(done=done)
        self._meter.close()

    def _tell(self, state: JobState) -> None:
        self._report.take(state)
        if self._as_json:
            now_s = time.monotonic()
            if state.turns or now_s >= self._next_s:
                self._next_s = now_s + _LINE_S
                typer.echo(json.dumps(self._report.as_row(), ensure_ascii=False), err=True)
        elif self._meter.is_due() or (state.step != self._shown and state.share is None):
            # A step without a share takes seconds of which nothing else is seen.
            self._shown = state.step
            self._meter.update(state.share, self._report.as_text())


class JobOutput(ProgressOutput):
    """The output of a job that runs."""

    def __init__(self, name: str, *, as_json: bool, endless: bool = False) -> None:
        super().__init__(name, as_json=as_json, endless=endless)
        self._began_s: Final = time.monotonic()
        self._row: dict[str, object] = {}
        self._text = ""

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
def job_output(name: str, *, as_json: bool, stopped: str = "", endless: bool = False) -> Iterator[JobOutput]:
    """Run a job; `stopped` says what Ctrl-C leaves behind. One that is `endless` goes on until then."""
    with JobOutput(name, as_json=as_json, endless=endless) as output:
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
