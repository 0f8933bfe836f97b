"""`verify` notices whatever is wrong with stored data, and names it (L21)."""

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.durable.changes import Changes
from holdfast.model.clock import ManualClock
from holdfast.model.errors import SettingsError
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.records.generations import decode_generation, encode_generation
from holdfast.records.messages import StoredMessage, decode_message, encode_message
from holdfast.records.meta_keys import ceiling_key, generation_key, head_key
from holdfast.records.positions import ShardHead, decode_head, encode_ceiling, encode_head
from holdfast.records.retained import RetainedRecord, encode_retained, expiry_key, retained_key
from holdfast.records.session.session_keys import client_prefix, connected_key, session_key
from holdfast.records.session.session_record import SessionRecord, encode_session
from holdfast.storage.rocks.checking.verification import verify_folder
from holdfast.storage.rocks.checking.verify_report import VerifyReport
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.engine.scan import scan_items
from holdfast.storage.rocks.layouts.build import ALL_LAYOUTS
from holdfast.storage.rocks.layouts.layout import MARKS, MESSAGES, POSTINGS, STRUCTURE
from tests.unit.storage.rocks.log_node import Node

FIRST = "log-00000-00000001"
SECOND = "log-00000-00000002"


def write_log(folder: Path, layout: str = "learned") -> None:
    """Two shards, two generations, the first one indexed; a retained message and a session."""
    node = Node(folder, ManualClock(), layout=layout)
    node.fill()
    node.maintenance.rotate(node.zone)
    node.fill(10)
    node.index()
    changes = Changes()
    message = Message(b"status", b"on", 1, ClientId("c"), 1, expires_us=5_000_001)
    record = RetainedRecord(StoredMessage(message, 1, 1), 0, 1)
    changes.into("retained").put(retained_key(b"status"), encode_retained(record))
    changes.into("retained").put(expiry_key(5_000_001, b"status"), b"")
    changes.into("sessions").put(session_key("c"), encode_session(SessionRecord(expiry_s=60, disconnected_us=0)))
    changes.into("sessions").put(connected_key("c"), b"")
    changes.into("sessions").put(client_prefix("c") + b"\x04\x00\x07", b"")
    node.log.write_own(changes)
    node.log.close()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verify") / "data"
    write_log(folder)
    return folder


class Hand:
    """Changes a folder behind the log's back, and puts everything back in the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._before: list[tuple[str, bytes, bytes | None]] = []

    def edit(self, edit: Callable[["Hand", Changes], None]) -> None:
        self.engine = Engine.open(self.folder, reserve_bytes=0)
        changes = Changes()
        edit(self, changes)
        for name, family in changes.families():
            for key, _value in family.operations:
                self._before.append((name, key, self.engine.family(name).get(key)))
        self._write(changes)

    def keys(self, family: str, tag: bytes) -> list[tuple[bytes, bytes]]:
        found = list(scan_items(self.engine.family(family), tag, bytes((tag[0] + 1,))))
        assert found
        return found

    def get(self, family: str, key: bytes) -> bytes:
        value = self.engine.family(family).get(key)
        assert isinstance(value, bytes)
        return value

    def undo(self) -> None:
        self.engine = Engine.open(self.folder, reserve_bytes=0)
        changes = Changes()
        for name, key, value in self._before:
            if value is None:
                changes.into(name).delete(key)
            else:
                changes.into(name).put(key, value)
        self._write(changes)

    def _write(self, changes: Changes) -> None:
        self.engine.write(self.engine.written + 1, changes)
        self.engine.close()


@pytest.fixture
def hand(written: Path) -> Iterator[Hand]:
    hand = Hand(written)
    yield hand
    hand.undo()


def lines(report: VerifyReport) -> str:
    return "\n".join(map(str, report.problems))


@pytest.mark.parametrize(
    "layout", [name if name == "learned" else pytest.param(name, marks=pytest.mark.slow) for name in ALL_LAYOUTS]
)
def test_a_sound_folder_has_no_problems(tmp_path: Path, layout: str) -> None:
    """L21: and everything in it was read."""
    write_log(tmp_path, layout)
    told: list[tuple[str, int, int]] = []
    report = verify_folder(tmp_path, lambda *args: told.append(args))
    assert lines(report) == ""
    assert report.is_sound
    assert report.messages == 40 * 20
    assert {name for name, _done, _total in told} >= {"meta", "retained", "sessions", FIRST, SECOND}
    assert all(done <= total or not done for _name, done, total in told)


def lose_a_message(hand: Hand, changes: Changes) -> None:
    changes.into(SECOND).delete(hand.keys(SECOND, MESSAGES)[5][0])


def lose_an_indexed_message(hand: Hand, changes: Changes) -> None:
    changes.into(FIRST).delete(hand.keys(FIRST, MESSAGES)[-1][0])


def lose_the_last_message(hand: Hand, changes: Changes) -> None:
    key, _value = max(hand.keys(SECOND, MESSAGES), key=lambda item: decode_message(item[1]).serial)
    changes.into(SECOND).delete(key)


def cut_a_message(hand: Hand, changes: Changes) -> None:
    key, value = hand.keys(SECOND, MESSAGES)[3]
    changes.into(SECOND).put(key, value[:-1])


def move_a_message(hand: Hand, changes: Changes) -> None:
    messages = hand.keys(SECOND, MESSAGES)
    (key, value), (other, _value) = messages[0], messages[-1]
    changes.into(SECOND).delete(key)
    changes.into(SECOND).put(other[:9] + key[9:], value)


def change_a_topic(hand: Hand, changes: Changes) -> None:
    key, value = hand.keys(SECOND, MESSAGES)[0]
    stored = decode_message(value)
    other = Message(b"never/seen", stored.message.payload, 1, stored.message.publisher, stored.message.received_us)
    changes.into(SECOND).put(key, encode_message(other, stored.position_us, stored.serial))


def lose_a_posting(hand: Hand, changes: Changes) -> None:
    changes.into(FIRST).delete(hand.keys(FIRST, POSTINGS)[2][0])


def bend_a_posting(hand: Hand, changes: Changes) -> None:
    key, value = next(item for item in hand.keys(FIRST, POSTINGS) if len(item[1]) > 5)
    changes.into(FIRST).put(key, value[:1] + bytes((value[1] ^ 1,)) + value[2:])


def raise_the_mark(hand: Hand, changes: Changes) -> None:
    _key, value = hand.keys(FIRST, MARKS)[0]
    changes.into(FIRST).put(MARKS, (2**60).to_bytes(8, "little") + value[8:])


def lose_structure(hand: Hand, changes: Changes) -> None:
    changes.into(SECOND).delete(hand.keys(SECOND, STRUCTURE)[0][0])


def head_of(hand: Hand) -> ShardHead:
    return decode_head(hand.get("meta", head_key(0)))


def move_the_head(hand: Hand, changes: Changes) -> None:
    head = head_of(hand)
    changes.into("meta").put(head_key(0), encode_head(ShardHead(head.position_us, head.serial + 3, head.commits)))


def lower_the_ceiling(hand: Hand, changes: Changes) -> None:
    changes.into("meta").put(ceiling_key(0), encode_ceiling(head_of(hand).position_us - 1))


def open_a_sealed_generation(hand: Hand, changes: Changes) -> None:
    key = generation_key("default", 1)
    record = decode_generation(key, hand.get("meta", key))
    wrong = record.sealed(record.end_us + 5_000, record.last_serials)
    changes.into("meta").put(key, encode_generation(wrong))


def lose_a_zone(hand: Hand, changes: Changes) -> None:
    changes.into("meta").delete(b"\x02default")


def cut_meta(hand: Hand, changes: Changes) -> None:
    changes.into("meta").put(head_key(1), b"\x01\x00")


def strange_meta(hand: Hand, changes: Changes) -> None:
    changes.into("meta").put(b"\x77", b"")


def bend_retained(hand: Hand, changes: Changes) -> None:
    changes.into("retained").put(retained_key(b"other"), hand.get("retained", retained_key(b"status")))


def lose_retained(hand: Hand, changes: Changes) -> None:
    changes.into("retained").delete(retained_key(b"status"))


def lose_a_session(hand: Hand, changes: Changes) -> None:
    changes.into("sessions").delete(session_key("c"))


def bend_a_session(hand: Hand, changes: Changes) -> None:
    changes.into("sessions").put(session_key("c"), b"\x09")


@pytest.mark.parametrize(
    ("edit", "where", "what"),
    [
        (lose_a_message, SECOND, r"messages (\d+) to \1 of shard 0 are missing"),
        (lose_an_indexed_message, FIRST, r"tokens at varying levels up to the mark|are missing"),
        (lose_the_last_message, "shard 0", r"messages (\d+) to \1 are missing at its end"),
        (cut_a_message, SECOND, r"the lengths in its header add up to"),
        (move_a_message, SECOND, r"is in stream [0-9a-f]{16}, not in"),
        (change_a_topic, SECOND, r"never/seen"),
        (lose_a_posting, FIRST, r"filters with such a token miss messages"),
        (bend_a_posting, FIRST, r"filters with such a token miss messages|is not in order"),
        (raise_the_mark, FIRST, r"are marked complete up to 1152921504606846976"),
        (lose_structure, SECOND, r"record 0 of the learned structure is missing"),
        (move_the_head, "shard 0", r"messages \d+ to \d+ are missing at its end"),
        (lower_the_ceiling, "meta", r"positions could be given out twice"),
        (open_a_sealed_generation, "meta", r"generation 1 of zone 'default' ends at \d+, and 2 begins at"),
        (lose_a_zone, "meta", r"zone 'default' has generations and no record"),
        (cut_meta, "meta", r"ends within the position"),
        (strange_meta, "meta", r"key 77 is of no known kind"),
        (bend_retained, "retained", r"retained under b'other' is of topic b'status'"),
        (lose_retained, "retained", r"listed to expire at 5000001"),
        (lose_a_session, "sessions", r"client 'c' is listed, and has no session"),
        (bend_a_session, "sessions", r"has version 9"),
    ],
)
def test_what_is_wrong_is_named(hand: Hand, edit: Callable[[Hand, Changes], None], where: str, what: str) -> None:
    """L21: in every kind of record; and there is advice."""
    hand.edit(edit)
    report = verify_folder(hand.folder)
    assert not report.is_sound
    found = [problem for problem in report.problems if problem.where == where]
    assert any(re.search(what, problem.what) for problem in found), lines(report)
    assert all(problem.advice for problem in report.problems)


def test_what_was_changed_and_put_back_is_sound(written: Path, hand: Hand) -> None:
    """The tests above change one folder after the other's change was undone: so a problem is of its own test."""
    hand.edit(cut_a_message)
    hand.undo()
    assert lines(verify_folder(written)) == ""


def test_many_problems_of_one_kind_are_counted(hand: Hand) -> None:
    def edit(hand: Hand, changes: Changes) -> None:
        for key, value in hand.keys(SECOND, MESSAGES)[:50]:
            changes.into(SECOND).put(key, value[:-1])

    hand.edit(edit)
    report = verify_folder(hand.folder)
    assert len([problem for problem in report.problems if problem.where == SECOND]) == 10
    assert report.more == {(SECOND, "tag 01"): 40}


def test_a_bad_block_of_a_table_is_found(tmp_path: Path) -> None:
    """L21: RocksDB's own checksums are looked at, and the family is named."""
    node = Node(tmp_path, ManualClock())
    node.fill(100)
    node.engine.flush()
    node.log.close()
    table = max((tmp_path / "rocks").glob("*.sst"), key=lambda path: path.stat().st_size)
    with table.open("r+b") as file:
        file.seek(table.stat().st_size // 4)
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes((byte ^ 0x40,)))
    report = verify_folder(tmp_path)
    assert "log-0000" in lines(report)
    assert "cannot be read" in lines(report)


def test_a_generation_that_vanished_is_told_from_one_that_was_dropped(tmp_path: Path) -> None:
    """L21: the oldest ones go by retention; one from the middle, or the open one, does not."""
    node = Node(tmp_path, ManualClock(), shards=1)
    for _generation in range(4):
        node.fill(3)
        node.maintenance.rotate(node.zone)
    node.maintenance.drop_oldest(node.zone)
    node.log.close()
    assert lines(verify_folder(tmp_path)) == ""
    engine = Engine.open(tmp_path, reserve_bytes=0)
    engine.drop_family("log-00000-00000003")
    engine.close()
    assert "generation 3 of zone 'default' lacks log-00000-00000003" in lines(verify_folder(tmp_path))


def test_damage_found_at_open_is_told(tmp_path: Path) -> None:
    """L21: the opening mends what it can; the report does not hide it."""
    node = Node(tmp_path / "live", ManualClock())
    node.fill()
    killed = tmp_path / "killed"
    shutil.copytree(tmp_path / "live", killed)
    node.log.close()
    wal = max((killed / "rocks").glob("*.log"), key=lambda path: path.stat().st_size)
    data = bytearray(wal.read_bytes())
    data[len(data) // 2] ^= 0xFF
    wal.write_bytes(data)
    report = verify_folder(killed)
    assert not report.is_sound
    assert any("quarantine" in problem.advice for problem in report.problems)


def test_a_folder_without_a_database_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no data folder"):
        verify_folder(tmp_path)
    assert list(tmp_path.iterdir()) == []
