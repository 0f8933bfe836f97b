"""The whole log under kill -9 and power loss, several times on the same folder.

CI crashes one log of each layout; HOLDFAST_CRASH_RUNS=1000 digs deeper.
"""

import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.model.message import Message
from holdfast.records.messages import stored_serial
from holdfast.records.pages.segment_index import decode_directory
from holdfast.storage.rocks.checking.verification import verify_folder
from holdfast.storage.rocks.engine.scan import scan_items
from holdfast.storage.rocks.layouts.layout import MARKS, SEGMENTS
from holdfast.storage.rocks.log.commit_log import RocksLog
from tests.crash.disks import FragileDisk
from tests.crash.log_writer import Key, line, open_folder, read_all, start_writer
from tests.learned_dump import dump
from tests.replays import replay_of

#: At most so many receipts are waited for.
_MOST_RECEIPTS = 60
#: Crashes of one log: every run reads all of it.
_RUNS_IN_FOLDER = 7
#: Whole logs, so that the last one has lived as long as the others.
CRASH_RUNS = -(-int(os.environ.get("HOLDFAST_CRASH_RUNS", "7")) // _RUNS_IN_FOLDER) * _RUNS_IN_FOLDER
POWER_RUNS = max(5, CRASH_RUNS // 4)


class Seen:
    """What is known from outside: receipts, and what was in the log after the last crash."""

    def __init__(self) -> None:
        #: Lines of messages that must be there for good.
        self.kept: set[str] = set()
        #: Every position that was ever shown, and by whom.
        self.positions: dict[tuple[int, int], str] = {}
        self.structures: dict[str, str] = {}
        #: The most messages of a segment; 0 if there was none.
        self.largest_segment = 0

    def note(self, text: str) -> None:
        *_words, shard, position_us = text.split()
        place = (int(shard), int(position_us))
        assert self.positions.setdefault(place, text) == text, f"Q9: {place} was given out twice"


def run_writer(folder: Path, layout: str, count: int, stop: Callable[[subprocess.Popen[bytes]], None]) -> list[str]:
    """Waits for `count` receipts, stops the writer, and returns the message of every receipt that was given."""
    writer = start_writer(folder, layout)
    assert writer.stdout is not None
    output: list[bytes] = []
    while count >= 0:
        text = writer.stdout.readline()
        assert text, "the writer died by itself"
        output.append(text)
        count -= text.startswith(b"receipt")
    stop(writer)
    output.extend(writer.stdout.read().splitlines(keepends=True))
    writer.stdout.close()
    writer.wait()
    # A receipt counts when its own line is whole: the messages before it belong to it.
    whole = [text.decode().strip() for text in output if text.endswith(b"\n")]
    while whole and not whole[-1].startswith("receipt"):
        whole.pop()
    return [text for text in whole if not text.startswith("receipt")]


def structures(log: RocksLog) -> dict[str, str]:
    """What every open or sealed slice has learnt, as it would go on."""
    found: dict[str, str] = {}
    for zone_log in log.zone_logs.values():
        for piece in zone_log.live[-1].by_shard.values():
            topics = piece.layout.learned()
            if topics is not None:
                topics.check_invariants()
                found[piece.family] = dump(topics)
    return found


def segments(log: RocksLog) -> list[int]:
    """How many messages each segment has."""
    return [
        decode_directory(int.from_bytes(key[1:], "big"), value).messages
        for zone_log in log.zone_logs.values()
        for generation in zone_log.live
        if generation.record.layout == "paged"
        for piece in generation.by_shard.values()
        for key, value in scan_items(log.engine.family(piece.family), MARKS + b"\x00", SEGMENTS)
    ]


def check(log: RocksLog, seen: Seen, given: list[str], *, lax_survives: bool) -> None:
    assert log.engine.damage == []
    messages = read_all(replay_of(log.reader, (b"#",), 0))
    stored = set(map(line, messages))
    for text in given:
        seen.note(text)
    for text in sorted(stored):
        seen.note(text)
    wanted = seen.kept | {text for text in given if lax_survives or " lax/" not in text}
    assert wanted <= stored, f"receipts for what is not there: {sorted(wanted - stored)[:3]}"
    _check_order(messages)
    _check_serials(log)
    seen.largest_segment = max([seen.largest_segment, *segments(log)])
    assert read_all(replay_of(log.reader, (b"plant", b"+", b"#"), 0)) == [
        message for message in messages if message.topic.startswith(b"plant")
    ]
    seen.kept = stored


def _check_order(messages: list[Message]) -> None:
    """L1: the messages of a publisher on a topic are numbered as they come."""
    last: dict[Key, int] = {}
    for message in messages:
        key = (message.publisher, message.topic)
        number = int(message.payload)
        assert number == last.get(key, 0) + 1, f"L1: {key} comes to {number} after {last.get(key)}"
        last[key] = number


def _check_serials(log: RocksLog) -> None:
    for zone_log in log.zone_logs.values():
        for number, shard in zone_log.shards.items():
            serials = [
                stored_serial(value)
                for piece, from_us, before_us in zone_log.pieces(number, 0, shard.head_us + 1)
                for value in piece.layout.read(log.engine.family(piece.family), (b"#",), from_us, before_us)
                if value
            ]
            assert serials == list(range(1, shard.head_serial + 1))


def open_twice(folder: Path, layout: str, seen: Seen, given: list[str], *, lax_survives: bool) -> None:
    """Opens, checks, opens again: what was learnt is the same, with what is stored and with what it is learnt from."""
    log = open_folder(folder, layout)
    try:
        check(log, seen, given, lax_survives=lax_survives)
        before = structures(log)
    finally:
        log.close()
    log = open_folder(folder, layout)
    try:
        assert structures(log) == before, "L10"
        assert layout == "paged" or any(before.values())
    finally:
        log.close()
    assert verify_folder(folder).problems == []


both_layouts = pytest.mark.parametrize("layout", ["learned", "paged"])


@pytest.mark.slow
@pytest.mark.timeout(60 + 30 * CRASH_RUNS)
@both_layouts
def test_everything_with_a_receipt_survives_kill_9(tmp_path: Path, layout: str) -> None:
    """L1, L10, L20, Q9: also where nobody waits for a sync, and while segments are made of commit pages."""
    dice = random.Random(3)
    seen = Seen()
    for run in range(CRASH_RUNS):
        if run % _RUNS_IN_FOLDER == 0:
            shutil.rmtree(tmp_path / "data", ignore_errors=True)
            seen = Seen()
        given = run_writer(tmp_path / "data", layout, dice.randrange(_MOST_RECEIPTS), lambda writer: writer.kill())
        open_twice(tmp_path / "data", layout, seen, given, lax_survives=True)
    assert seen.kept
    assert (seen.largest_segment > 0) == (layout == "paged")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[FragileDisk]:
    disk = FragileDisk(tmp_path)
    yield disk
    disk.close()


@pytest.mark.slow
@pytest.mark.timeout(60 + 30 * POWER_RUNS)
@both_layouts
def test_everything_with_a_strict_receipt_survives_a_power_loss(disk: FragileDisk, layout: str) -> None:
    """L1, L10, L20, Q9: a lax message may be lost, but its place is never given to another one."""

    def cut(writer: subprocess.Popen[bytes]) -> None:
        disk.cut_power()
        writer.kill()

    dice = random.Random(4)
    seen = Seen()
    for run in range(POWER_RUNS):
        if run % _RUNS_IN_FOLDER == 0:
            shutil.rmtree(disk.folder / "data", ignore_errors=True)
            seen = Seen()
        given = run_writer(disk.folder / "data", layout, dice.randrange(1, _MOST_RECEIPTS), cut)
        disk.restart()
        open_twice(disk.folder / "data", layout, seen, given, lax_survives=False)
    assert seen.kept
