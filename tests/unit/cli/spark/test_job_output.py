"""What follows from the states of a job: rows in a second, time left; as words and as a line of JSON."""

import json
from typing import Any

import pytest

from holdfast.cli.spark import job_output as output_module
from holdfast.cli.spark.job_output import ProgressReport, job_output
from holdfast.pipeline.spark.progress import JobProgress, JobState


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_rates_are_those_of_the_step_and_the_time_left_that_of_the_job() -> None:
    clock = Clock()
    report = ProgressReport("audit", clock)
    report.take(JobState("starting Spark 4.3.0"))
    clock.now_s += 8
    report.take(JobState("messages of the log", 0.2, 0, number=1))
    clock.now_s += 10
    report.take(JobState("messages of the log", 0.4, 50_000, 2_000_000, number=1))

    assert report.as_row() == {
        "event": "progress",
        "job": "audit",
        "step": "messages of the log",
        "share": 0.4,
        "rows": 50_000,
        "bytes": 2_000_000,
        "rows_per_s": 5000.0,
        "seconds": 18.0,
        # A fifth of the job has taken ten seconds.
        "seconds_left": 30.0,
    }
    assert report.as_text() == "messages of the log: 50,000 rows, 2.0 MB, 5,000/s, 30 s left"


class Job:
    """A job, and the line of JSON that is printed of each of its states."""

    def __init__(self, *, endless: bool = False) -> None:
        self.clock = Clock()
        self.lines: list[dict[str, Any]] = []
        self._report = ProgressReport("job", self.clock)
        self.progress = JobProgress(self._take, endless=endless)

    def _take(self, state: JobState) -> None:
        self._report.take(state)
        self.lines.append(self._report.as_row())

    def work(self, seconds: float, rows: int, share: float | None = None) -> dict[str, Any]:
        """The line at the end of so many seconds, after which the step has so many rows."""
        self.clock.now_s += seconds
        self.progress.update(share=share, rows=rows)
        return self.lines[-1]


def test_a_step_that_comes_again_has_its_own_rate() -> None:
    """Rounds of an archive have steps of one name, with minutes between them."""
    job = Job(endless=True)
    rates = []
    for _round in range(3):
        job.progress(0.0, "archiving messages", until=0.9, rows=100_000)
        rates.append(job.work(2, 100_000)["rows_per_s"])
        job.clock.now_s += 60
    assert rates == [50_000.0] * 3


def test_a_job_that_goes_on_until_it_is_stopped_has_no_share() -> None:
    job = Job(endless=True)
    for _round in range(2):
        job.progress(0.0, "archiving messages", until=0.9, rows=1000)
        job.work(1, 500)
        job.work(1, 1000, share=0.9)
    assert {(line["share"], line["seconds_left"]) for line in job.lines} == {(None, None)}


def test_what_an_earlier_run_has_done_is_no_work_of_this_one() -> None:
    """A replay that goes on begins where it was, and is as fast as it is."""
    job = Job()
    job.progress.say("starting, with Spark 4.3.0")
    job.clock.now_s += 8
    job.progress(0.9, "publishing messages", rows=1_000_000, done=900_000)
    assert (job.lines[-1]["share"], job.lines[-1]["rows"]) == (0.9, 900_000)

    line = job.work(10, 910_000, share=0.91)

    assert (line["rows"], line["rows_per_s"]) == (910_000, 1000.0)
    assert line["seconds_left"] == 90.0


def test_steps_in_which_the_share_stays_say_nothing_of_the_rest() -> None:
    """A replay counts its messages before it begins."""
    job = Job()
    job.progress(0.0, "counting messages")
    job.clock.now_s += 60
    job.progress(0.0, "publishing messages", rows=100)
    assert job.work(10, 10, share=0.1)["seconds_left"] == 90.0


def test_a_step_that_was_interrupted_goes_on_with_its_rows() -> None:
    job = Job()
    job.progress(0.0, "archiving messages", until=1.0, rows=4000)
    job.work(1, 1000)
    with job.progress.interlude():
        job.progress.say("starting Spark")
        job.clock.now_s += 9
    line = job.work(2, 3000)
    assert (line["rows"], line["rows_per_s"]) == (3000, 1000.0)


def test_what_is_not_known_is_null_and_not_said() -> None:
    clock = Clock()
    report = ProgressReport("load", clock)
    report.take(JobState("starting Spark 4.3.0"))
    clock.now_s += 1

    row = report.as_row()

    assert {key for key, value in row.items() if value is None} == {
        "share",
        "rows",
        "bytes",
        "rows_per_s",
        "seconds_left",
    }
    assert report.as_text() == "starting Spark 4.3.0"


def test_lines_of_progress_are_on_standard_error_and_the_summary_on_standard_output(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with job_output("load", as_json=True) as job:
        job.progress(0.5, "laying out the rows")
        job.summarize({"messages": 7}, "7 messages")

    out, err = capsys.readouterr()
    summary = json.loads(out)
    assert summary.pop("seconds") >= 0
    assert summary == {"messages": 7}
    told = [json.loads(line) for line in err.splitlines()]
    steps = ["starting, with Spark 4.3.0"] * 2 + ["laying out the rows"] * 2
    assert [(line["step"], line["share"]) for line in told] == list(zip(steps, [None, None, 0.5, 1.0], strict=True))


def test_lines_come_within_a_step_and_not_more_often_than_wanted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lines(pause_s: float) -> list[tuple[int | None, float | None, bool]]:
        monkeypatch.setattr(output_module, "_LINE_S", pause_s)
        with job_output("load", as_json=True) as job:
            job.progress(0.0, "laying out the rows", until=0.8, rows=10)
            for rows in (2, 5):
                job.progress.update(rows=rows)
        told = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
        laid = [line for line in told if line["step"] == "laying out the rows"]
        return [(line["rows"], line["share"], line["seconds_left"] is not None) for line in laid]

    assert lines(0.0) == [(None, 0.0, False), (2, 0.16, True), (5, 0.4, True), (5, 1.0, True)]
    assert lines(3600.0) == [(None, 0.0, False), (5, 1.0, True)]


def test_people_get_each_step_without_a_share_once(capsys: pytest.CaptureFixture[str]) -> None:
    with job_output("load", as_json=False) as job:
        job.progress.say("preparing Spark 4.3.0 for this machine: once for each version")
        job.progress.say("preparing Spark 4.3.0 for this machine: once for each version")
        job.summarize({}, "7 messages")

    out, err = capsys.readouterr()
    assert out.startswith("7 messages, in ")
    assert err.splitlines() == [
        "load: starting, with Spark 4.3.0",
        "load: preparing Spark 4.3.0 for this machine: once for each version",
    ]
