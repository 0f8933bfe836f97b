"""Segments are built by a process beside the broker. The broker needs it for nothing, and survives its every death."""

import asyncio
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import holdfast
from holdfast.broker.policy import Policy
from holdfast.broker.sys_topics import SysTopics
from holdfast.durable.commit import Batch
from holdfast.durable.log import NO_END
from holdfast.model.errors import TransientError
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.node.processes.child_process import child_process
from holdfast.node.processes.segment_main import (
    LENGTH,
    Built,
    Failed,
    Frame,
    Pages,
    StretchEnd,
    decode_frame,
    encode_frame,
    serve,
)
from holdfast.node.processes.segment_supervisor import SegmentSupervisor
from holdfast.node.settings.tree import Settings, Storage
from holdfast.node.storage import DiskStorage
from holdfast.node.system_clock import SystemClock
from holdfast.records.pages.commit_pages import encode_page
from holdfast.storage.rocks.checking.verification import verify_folder
from holdfast.storage.rocks.layouts.paged import SegmentSize
from holdfast.storage.rocks.layouts.postings import NOTHING_INDEXED, read_mark
from holdfast.storage.rocks.log.segment_writer import Stretch
from tests.disk_world import DiskWorld
from tests.replays import replay_of

SHARD = "log-00000-00000001"
SMALL = SegmentSize(messages=500)
#: Of 500 messages with so many bytes: 8 MB, which is some twenty slices.
LARGE_BYTES = 16_000
LARGE = SegmentSize(messages=500, size_bytes=64 << 20)
PATIENCE_S = 60


class Disk:
    """The storage of a node, without a broker."""

    def __init__(self, folder: Path) -> None:
        settings = Settings(storage=Storage(data=folder, layout="paged", sync_on_loop="never"))
        self.storage = DiskStorage(settings, Policy(), SystemClock())
        self.written: list[Message] = []
        self._number = 0

    def write(self, count: int, payload_bytes: int = 100) -> None:
        random = Random(count)
        for _commit in range(0, count, 100):
            self._number += 1
            batch = Batch(self._number)
            for _message in range(100):
                topic = b"plant/%d/temp" % random.randrange(50)
                batch.messages.append(Message(topic, random.randbytes(payload_bytes), 1, ClientId("p"), 1))
            self.storage.log.write(batch)
            self.written += batch.messages
        self.storage.engine.sync_now()

    def mark_us(self) -> int:
        return read_mark(self.storage.engine.family(SHARD))

    def read(self) -> list[Message]:
        for zone_log in self.storage.log.zone_logs.values():
            for shard in zone_log.shards.values():
                shard.head_us = shard.position_us
                # Nothing is read from memory.
                shard.ring.evicted_us = shard.position_us
        replay = replay_of(self.storage.log.reader, (b"#",), 0, NO_END)
        found: list[Message] = []
        while not (page := replay.next(500)).at_end:
            found += page.messages
        return found + page.messages


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    disk = Disk(tmp_path)
    yield disk
    disk.storage.close()
    assert verify_folder(tmp_path).problems == []


class Finished:
    """Tells when segments are stored."""

    def __init__(self, supervisor: SegmentSupervisor, monkeypatch: pytest.MonkeyPatch) -> None:
        self._finish = supervisor._segments.finish
        self._stored: asyncio.Queue[int] = asyncio.Queue()
        monkeypatch.setattr(supervisor._segments, "finish", self._note)

    def _note(self, *segment: object) -> None:
        self._finish(*segment)  # type: ignore[arg-type]
        self._stored.put_nowait(1)

    async def wait(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            for _segment in range(count):
                await self._stored.get()


def test_the_process_makes_segments_of_what_waits(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        disk.write(2_000)
        supervisor = SegmentSupervisor(disk.storage, SMALL)
        finished = Finished(supervisor, monkeypatch)
        running = asyncio.create_task(supervisor.run())
        await finished.wait(4)
        assert disk.mark_us() == disk.written[-1].position_us
        disk.write(500)
        await finished.wait(1)
        assert disk.mark_us() == disk.written[-1].position_us
        assert disk.read() == disk.written
        assert disk.storage.segment_counts.made == 5
        process = supervisor.process
        assert process is not None
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert process.returncode == 0, "it ends with the broker"

    asyncio.run(run())


def test_a_process_that_is_killed_is_started_again(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        disk.write(500)
        supervisor = SegmentSupervisor(disk.storage, SMALL)
        finished = Finished(supervisor, monkeypatch)
        running = asyncio.create_task(supervisor.run())
        await finished.wait(1)
        first = supervisor.process
        assert first is not None
        first.kill()
        disk.write(1_000)
        await finished.wait(2)
        assert supervisor.process is not None
        assert supervisor.process.pid != first.pid
        assert disk.mark_us() == disk.written[-1].position_us
        assert disk.read() == disk.written
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(run())


@pytest.mark.parametrize("slices", [0, 1, 4], ids="killed after {} slices of the stretch".format)
def test_a_process_that_is_killed_while_it_is_sent_a_stretch_costs_nothing(
    disk: Disk, monkeypatch: pytest.MonkeyPatch, slices: int
) -> None:
    """L20: it is sent five slices, a commit each."""

    async def run() -> None:
        monkeypatch.setattr("holdfast.node.processes.segment_supervisor._FIRST_PAUSE_S", 0.0)
        disk.write(500, LARGE_BYTES)
        supervisor = SegmentSupervisor(disk.storage, LARGE)
        finished = Finished(supervisor, monkeypatch)
        read = supervisor._segments.read
        killed: list[asyncio.subprocess.Process] = []

        def dies_once(stretch: Stretch) -> Iterator[list[bytes]]:
            for number, values in enumerate(read(stretch)):
                if number == slices and not killed:
                    assert supervisor.process is not None
                    killed.append(supervisor.process)
                    supervisor.process.kill()
                yield values

        monkeypatch.setattr(supervisor._segments, "read", dies_once)
        running = asyncio.create_task(supervisor.run())
        await finished.wait(1)
        assert len(killed) == 1
        assert supervisor.process is not killed[0]
        assert disk.mark_us() == disk.written[-1].position_us
        assert disk.read() == disk.written
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(run())


@pytest.mark.parametrize("slices", [1, 2, 8], ids="killed after {} slices of the segment".format)
def test_a_process_that_is_killed_while_it_answers_costs_nothing(
    disk: Disk, monkeypatch: pytest.MonkeyPatch, slices: int
) -> None:
    """L20: pages that it had sent are stored and belong to nobody. What it sends is more than the pipe and the broker's
    reader hold, so its last frame has not left when it is killed.
    """

    async def run() -> None:
        monkeypatch.setattr("holdfast.node.processes.segment_supervisor._FIRST_PAUSE_S", 0.0)
        disk.write(500, LARGE_BYTES)
        supervisor = SegmentSupervisor(disk.storage, LARGE)
        finished = Finished(supervisor, monkeypatch)
        store_pages = supervisor._segments.store_pages
        stored: list[int] = []
        marks: list[int] = []

        def dies_once(stretch: Stretch, first_page: int, pages: list[bytes]) -> None:
            store_pages(stretch, first_page, pages)
            stored.append(stretch.number)
            marks.append(disk.mark_us())
            if len(stored) == slices:
                assert supervisor.process is not None
                supervisor.process.kill()

        monkeypatch.setattr(supervisor._segments, "store_pages", dies_once)
        running = asyncio.create_task(supervisor.run())
        await finished.wait(1)
        assert set(stored) == {1, 2}, "the first one was cut short, and its number is not used again"
        assert set(marks) == {NOTHING_INDEXED}, "nothing was deleted before the last batch"
        assert disk.mark_us() == disk.written[-1].position_us
        assert disk.read() == disk.written
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(run())


def test_a_stretch_that_ends_the_process_three_times_stays_in_commit_pages(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        monkeypatch.setattr("holdfast.node.processes.segment_supervisor._FIRST_PAUSE_S", 0.0)
        disk.write(1_000)
        supervisor = SegmentSupervisor(disk.storage, SMALL)
        given_up = asyncio.Event()
        give_up = supervisor._segments.give_up
        read = supervisor._segments.read

        def dies(*stretch: object) -> Iterator[list[bytes]]:
            assert supervisor.process is not None
            supervisor.process.kill()
            return read(*stretch)  # type: ignore[arg-type]

        def note(*why: object) -> None:
            give_up(*why)  # type: ignore[arg-type]
            given_up.set()

        monkeypatch.setattr(supervisor._segments, "read", dies)
        monkeypatch.setattr(supervisor._segments, "give_up", note)
        running = asyncio.create_task(supervisor.run())
        async with asyncio.timeout(PATIENCE_S):
            await given_up.wait()
        assert disk.mark_us() == NOTHING_INDEXED
        assert supervisor._segments.next_stretch() is None
        assert disk.read() == disk.written
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(run())


def test_a_full_disk_is_waited_for(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often there is no room, no stretch is given up."""

    async def run() -> None:
        monkeypatch.setattr("holdfast.node.processes.segment_supervisor._FIRST_PAUSE_S", 0.0)
        monkeypatch.setattr("holdfast.node.processes.segment_supervisor._LONGEST_PAUSE_S", 0.0)
        disk.write(500)
        supervisor = SegmentSupervisor(disk.storage, SMALL)
        finished = Finished(supervisor, monkeypatch)
        store_pages = supervisor._segments.store_pages
        full = [True] * 4

        def without_room(*pages: object) -> None:
            if full:
                full.pop()
                raise TransientError("no space left on device")
            store_pages(*pages)  # type: ignore[arg-type]

        monkeypatch.setattr(supervisor._segments, "store_pages", without_room)
        running = asyncio.create_task(supervisor.run())
        await finished.wait(1)
        assert not full
        assert disk.mark_us() == disk.written[-1].position_us
        assert disk.read() == disk.written
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(run())


def test_a_process_whose_answer_nobody_reads_ends_all_the_same() -> None:
    """A broker that stops in the middle of an answer."""
    messages = [Message(b"a/%d" % number, bytes(1_000), 1, ClientId("p"), 5) for number in range(5_000)]
    for number, message in enumerate(messages):
        message.position_us = 7 + number
    pages = [encode_page(messages[first : first + 1_000], 1 + first) for first in range(0, 5_000, 1_000)]

    async def run() -> int | None:
        async with child_process("holdfast.node.processes.segment_main", {}) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(b"".join([encode_frame(Pages(0, pages)), encode_frame(StretchEnd())]))
            await process.stdin.drain()
            await process.stdout.readexactly(LENGTH.size)
        return process.returncode

    assert asyncio.run(asyncio.wait_for(run(), PATIENCE_S)) == 0, "it was not killed"


def test_a_damaged_stretch_is_answered_and_the_next_one_is_built() -> None:
    message = Message(b"a/b", b"x", 1, ClientId("p"), 5)
    message.position_us = 7
    sent: list[Frame] = [Pages(0, [b"\x01broken"]), StretchEnd(), Pages(0, [encode_page([message], 1)]), StretchEnd()]
    target = io.BytesIO()
    serve(io.BytesIO(b"".join(map(encode_frame, sent))), target)
    answers, frames = target.getvalue(), []
    while answers:
        end = LENGTH.size + LENGTH.unpack(answers[: LENGTH.size])[0]
        frames.append(decode_frame(answers[LENGTH.size : end]))
        answers = answers[end:]
    failed, pages, built = frames
    assert isinstance(failed, Failed)
    assert "a commit page has 7 bytes" in failed.why
    assert isinstance(pages, Pages)
    assert isinstance(built, Built)


def test_sys_topics_tell_how_many_segments_were_made_and_what_waits(tmp_path: Path) -> None:
    for layout in ("paged", "learned"):
        with DiskWorld(tmp_path / layout, storage={"layout": layout}) as world:
            values = SysTopics(world.broker, "test", 0).values()
            assert ("storage/segments/made" in values) == (layout == "paged")
            assert ("storage/segments/waiting" in values) == (layout == "paged")


@pytest.mark.parametrize("cut", [3, 1_000, None], ids=["in a length", "in a frame", "before its answer is read"])
def test_a_process_whose_broker_was_killed_ends_without_a_word(cut: int | None) -> None:
    """A kill -9 closes both pipes wherever they are; a traceback for it would look like a defect."""
    messages = [Message(b"a/%d" % number, bytes(1_000), 1, ClientId("p"), 5) for number in range(1_000)]
    for number, message in enumerate(messages):
        message.position_us = 7 + number
    sent = b"".join([encode_frame(Pages(0, [encode_page(messages, 1)])), encode_frame(StretchEnd())])
    tree = str(Path(holdfast.__file__).resolve().parents[1])
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast.node.processes.segment_main"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": tree},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(sent[:cut])
    process.stdout.close()
    process.stdin.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert process.wait(PATIENCE_S) == 0
    process.stderr.close()
