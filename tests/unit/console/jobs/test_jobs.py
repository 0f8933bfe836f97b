"""Jobs: started once, stopped, resumed behind their place, kept over the end of the console."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from holdfast.console.jobs.jobs import MAX_KEPT, MAX_RUNNING, WITH_THE_CONSOLE, Job, JobEnd, Jobs
from holdfast.console.jobs.replay_request import PASSWORD_VARIABLE, ReplayRequest
from holdfast.console.problems import ProblemError
from holdfast.model.clock import ManualClock
from tests.unit.console.fake_job import FakeJob


def request(topic_filter: str = "plant/#") -> ReplayRequest:
    return ReplayRequest(filter=topic_filter, from_us=1, until_us=9, speed="max", prefix="replayed/", user="u")


class Place:
    """Jobs with a process of a test."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "jobs.json"
        self.fake = FakeJob()
        self.jobs = self.open()

    def open(self) -> Jobs:
        return Jobs(self.path, ManualClock(), self.fake.run)

    async def start(self, topic_filter: str = "plant/#", password: str = "") -> Job:
        self.fake.began.clear()
        job = self.jobs.start(request(topic_filter), ["--port=1"], "eva", password)
        await self.fake.began.wait()
        return job

    async def until_ended(self, job: Job) -> None:
        task = self.jobs._running[job.id].task
        assert task is not None
        await task


def run(folder: Path, work: Callable[[Place], Awaitable[None]]) -> None:
    async def inside() -> None:
        async with asyncio.timeout(30):
            place = Place(folder)
            await work(place)
            await place.jobs.close()

    asyncio.run(inside())


def test_a_job_is_done_when_its_process_is(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        job = await place.start()
        place.fake.tell(messages=3, bytes=30, at_us=5, share=0.5, place="0:5")
        assert (job.state, job.messages, job.bytes, job.at_us, job.share, job.place) == (
            "running",
            3,
            30,
            5,
            0.5,
            "0:5",
        )
        place.fake.finish()
        await place.until_ended(job)
        assert (job.state, job.share) == ("done", 1.0)

    run(tmp_path, work)


def test_a_stopped_job_goes_on_behind_its_place_and_counts_on(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        job = await place.start()
        place.fake.tell(messages=3, bytes=30, share=0.25, place="0:5")
        place.fake.last = {"messages": 4, "bytes": 40, "share": 0.5, "place": "0:6"}
        stopped = await place.jobs.stop(job.id)
        assert (stopped.state, stopped.messages, stopped.place, stopped.share) == ("stopped", 4, "0:6", 0.5)
        place.fake.began.clear()
        place.jobs.resume(job.id, ["--port=1"], "")
        await place.fake.began.wait()
        assert "--after=0:6" in place.fake.arguments[1]
        place.fake.tell(messages=2, bytes=20, share=0.5, place="0:7")
        assert (job.state, job.messages, job.bytes, job.share) == ("running", 6, 60, 0.75)

    run(tmp_path, work)


def test_the_same_job_twice_is_refused_while_it_runs(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        job = await place.start()
        with pytest.raises(ProblemError) as found:
            await place.start()
        assert (found.value.status, found.value.extra) == (409, {"job": job.id})
        await place.jobs.stop(job.id)
        again = await place.start()
        with pytest.raises(ProblemError, match="runs already"):
            place.jobs.resume(job.id, [], "")
        assert (job.state, again.state) == ("stopped", "running")

    run(tmp_path, work)


def test_no_more_jobs_run_than_may(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        for number in range(MAX_RUNNING):
            await place.start(f"plant/{number}")
        with pytest.raises(ProblemError, match=f"{MAX_RUNNING} jobs run already"):
            await place.start("another")

    run(tmp_path, work)


def test_a_failed_job_says_why_and_can_go_on(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        job = await place.start()
        place.fake.finish(1, "a line\nholdfast: the broker refused: Not authorized\n")
        await place.until_ended(job)
        assert (job.state, job.detail) == ("failed", "holdfast: the broker refused: Not authorized")
        place.jobs.resume(job.id, [], "")
        assert (job.state, job.detail) == ("running", "")

    run(tmp_path, work)


def test_a_process_that_cannot_be_run_is_a_failed_job(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        for error, detail in ((OSError(12, "no memory"), "no memory"), (ValueError("odd"), "its log says why")):

            async def fail(*_given: object, error: Exception = error) -> JobEnd:
                raise error

            jobs = Jobs(tmp_path / "other.json", ManualClock(), fail)
            job = jobs.start(request(), [], "eva", "")
            task = jobs._running[job.id].task
            assert task is not None
            await task
            assert (job.state, detail in job.detail) == ("failed", True)
        with pytest.raises(ProblemError, match="starts no jobs"):
            Jobs(tmp_path / "none.json", ManualClock(), None).check_new(request())

    run(tmp_path, work)


def test_what_runs_is_stopped_and_what_is_done_is_not_resumed(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        job = await place.start()
        with pytest.raises(ProblemError) as found:
            place.jobs.resume(job.id, [], "")
        assert found.value.status == 409
        place.fake.finish()
        await place.until_ended(job)
        with pytest.raises(ProblemError) as found:
            place.jobs.resume(job.id, [], "")
        assert found.value.status == 409
        for call in (place.jobs.stop(job.id), place.jobs.stop("unknown")):
            with pytest.raises(ProblemError) as found:
                await call
        assert found.value.status == 404

    run(tmp_path, work)


def test_a_password_is_a_variable_of_the_process_and_kept_nowhere(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        job = await place.start(password="s3cret")
        assert place.fake.environments == [{PASSWORD_VARIABLE: "s3cret"}]
        assert f"--password-env={PASSWORD_VARIABLE}" in place.fake.arguments[0]
        assert "s3cret" not in " ".join(place.fake.arguments[0])
        place.fake.tell(messages=1, place="0:5")
        assert b"s3cret" not in place.path.read_bytes()
        assert "s3cret" not in repr(job)

    run(tmp_path, work)


def test_jobs_end_with_the_console_and_are_there_at_its_next_start(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        job = await place.start()
        place.fake.tell(messages=3, place="0:5")
        # Killed: the file says that it runs.
        (killed,) = place.open().shown()["items"]
        assert (killed.state, killed.place, killed.detail) == ("stopped", "0:5", WITH_THE_CONSOLE)
        place.fake.last = {"messages": 4, "place": "0:6"}
        await place.jobs.close()
        assert (job.state, job.place, job.detail) == ("stopped", "0:6", WITH_THE_CONSOLE)
        (kept,) = place.open().shown()["items"]
        assert (kept.id, kept.messages, kept.place) == (job.id, 4, "0:6")

    run(tmp_path, work)


def test_the_newest_comes_first_and_old_ones_are_forgotten(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        for number in range(MAX_KEPT + 3):
            job = await place.start(f"plant/{number}")
            await place.jobs.stop(job.id)
        shown = [job.replay.filter for job in place.jobs.shown()["items"]]
        assert shown == [f"plant/{number}" for number in reversed(range(3, MAX_KEPT + 3))]

    run(tmp_path, work)


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b'{"messages": "x"}', b"\xff"])
def test_a_line_that_is_no_progress_changes_nothing(tmp_path: Path, line: bytes) -> None:
    async def work(place: Place) -> None:
        job = await place.start()
        place.fake.tell(messages=1, place="0:5")
        place.fake._tell(line)
        assert (job.state, job.messages, job.place) == ("running", 1, "0:5")

    run(tmp_path, work)


def test_a_file_that_cannot_be_read_is_begun_again(tmp_path: Path) -> None:
    (tmp_path / "jobs.json").write_text("{")

    async def work(place: Place) -> None:
        assert place.jobs.shown()["items"] == []

    run(tmp_path, work)


def test_what_changed_is_told_since_a_version(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        jobs = place.jobs
        first = await place.start("a")
        second = await place.start("b")
        assert jobs.changed_since(-1) == [second, first]
        before = jobs.version
        assert jobs.changed_since(before) == []
        place.fake.tell(messages=1, bytes=1)
        (moved,) = jobs.changed_since(before)
        assert moved.messages == 1
        assert jobs.changed_since(jobs.version) == []

    run(tmp_path, work)
