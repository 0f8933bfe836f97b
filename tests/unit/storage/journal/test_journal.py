"""A journal of queues, without its thread: where things lie, what is owed, what a restart finds."""

import json
import shutil
from datetime import datetime
from pathlib import Path

import pytest

from holdfast.model.errors import PermanentError, PoisonedError, SettingsError, TransientError
from holdfast.storage.journal.commit.commit_file import CommitFile, commit_files
from holdfast.storage.journal.options import JournalOptions
from holdfast.storage.journal.quarantine import quarantined
from holdfast.storage.journal.queue.state_file import QueueState, StateBackups, decode_state, load_owner
from holdfast.storage.journal.queue_folders import queue_id
from tests.journal_world import SECOND_US, JournalWorld, entry, limits, pack


@pytest.mark.parametrize("client_id", ["sensor-7", "", "ü/€ 🙂", "x" * 60_000, "../..", "a\nb"])
def test_a_queue_lies_in_the_fragments_of_its_id_and_nothing_is_made_before_the_first_write(
    tmp_path: Path, client_id: str
) -> None:
    """S1. Any client id will do, and can be found again."""
    world = JournalWorld(tmp_path / "j")
    assert world.numbers(client_id) == []
    assert world.journal.size(client_id).messages == 0
    world.acknowledge(client_id, 1)
    assert [*(tmp_path / "j").iterdir()] == []

    world.append(client_id, 1)
    name = queue_id(client_id)
    assert len(name) == 32
    place = tmp_path / "j" / "queues" / name[:2] / name[2:4] / name[4:6] / name[6:8] / name[8:]
    assert sorted(path.name for path in place.iterdir()) == ["messages.00000001.log", "queue.log"]
    assert load_owner(place) == client_id
    world.restart()
    assert world.numbers(client_id) == [1]


@pytest.mark.parametrize("left", [".queue.log.0123456789ab.part", "queue.log.new"])
def test_a_process_that_was_killed_while_it_made_a_queue_leaves_no_damage(tmp_path: Path, left: str) -> None:
    world = JournalWorld(tmp_path)
    folder = world.folder("c")
    folder.mkdir(parents=True)
    (folder / left).write_bytes(b"half a li")
    assert world.numbers("c") == []
    world.append("c", 1)
    world.restart()
    assert world.numbers("c") == [1]
    assert quarantined(tmp_path) == []


def test_files_rotate_when_they_are_full_and_go_when_they_are_drained(tmp_path: Path) -> None:
    """S2. They go with the commit file that might need them, at the next checkpoint."""
    world = JournalWorld(tmp_path, max_file_messages=3)
    world.append("c", 1, 2)
    world.append("c", 3, 4, 5, 6, 7)
    files = ["messages.00000001.log", "messages.00000002.log", "messages.00000003.log"]
    assert [name for name in world.names("c") if name.startswith("messages")] == files
    world.acknowledge("c", 1, 2, 3)
    assert world.numbers("c") == [4, 5, 6, 7]
    world.checkpoint()
    assert [name for name in world.names("c") if name.startswith("messages")] == files[1:]
    world.restart()
    assert world.numbers("c") == [4, 5, 6, 7]


def test_a_file_in_the_middle_goes_too_and_one_message_that_is_never_acknowledged_keeps_one_file(
    tmp_path: Path,
) -> None:
    """S2."""
    world = JournalWorld(tmp_path, max_file_messages=3)
    for number in range(1, 31):
        world.append("c", number)
        if number > 1:
            world.acknowledge("c", number)
    world.checkpoint()
    messages = [name for name in world.names("c") if name.startswith("messages")]
    assert len(messages) == 2
    world.restart()
    assert world.numbers("c") == [1]
    assert world.append("c", 31).serials == [31]


def test_a_file_has_to_hold_more_than_a_queue(tmp_path: Path) -> None:
    """S2: checked at start, and free to change at a restart."""
    with pytest.raises(SettingsError, match="max_file_messages greater than max_queue_messages"):
        JournalOptions(max_queue_messages=1000, max_file_messages=1000)
    world = JournalWorld(tmp_path, max_file_messages=6)
    world.append("c", *range(1, 10))
    for size in (3, 100):
        world.restart(max_file_messages=size)
        world.append("c", *range(size * 10, size * 10 + 8))
    assert world.numbers("c") == [*range(1, 10), *range(30, 38), *range(1000, 1008)]
    world.journal._queue("c").check_invariants()


def test_the_last_whole_line_is_the_state_and_says_where_reading_and_writing_are(tmp_path: Path) -> None:
    """S3."""
    world = JournalWorld(tmp_path)
    world.append("c", 10, 20, 30, 40)
    world.acknowledge("c", 1, 3)
    world.release("c", 4)
    state = decode_state((world.folder("c") / "queue.log").read_bytes().splitlines(keepends=True)[-1])
    assert state is not None
    size_bytes = (world.folder("c") / "messages.00000001.log").stat().st_size
    assert (state.read_file, state.read_msg) == (1, 1)
    assert (state.write_file, state.write_msg, state.write_byte) == (1, 4, size_bytes)
    assert (state.serial, state.number, state.done, state.released) == (4, 40, "3", "4")
    world.restart()
    assert [(one.number, one.released) for one in world.journal.read("c", 0, 9)] == [(20, False), (40, True)]


def test_the_state_is_compacted_on_open_and_at_rotation_and_dated_copies_stay_for_a_while(tmp_path: Path) -> None:
    """S3."""
    keep = StateBackups(files=5, age_s=100)
    world = JournalWorld(tmp_path, max_file_messages=30, backups=keep)
    for number in range(1, 31):
        world.append("c", number)
    log = world.folder("c") / "queue.log"
    assert len(log.read_bytes().splitlines()) == 32
    world.restart()
    assert len(world.numbers("c")) == 30
    assert len(log.read_bytes().splitlines()) == 2

    assert len(copies(world)) == 1
    world.append("c", 31)
    assert len(log.read_bytes().splitlines()) == 2


def copies(world: JournalWorld) -> list[int]:
    """The ages of the dated copies of a queue's states, in seconds, the youngest first."""
    stamps = [name.split(".")[1] for name in world.names("c") if name.startswith("queue.2")]
    now_us = world.clock.wall_us()
    times = [datetime.strptime(f"{stamp}+0000", "%Y%m%dT%H%M%S%f%z") for stamp in stamps]
    return sorted(now_us // SECOND_US - int(time.timestamp()) for time in times)


def test_so_many_dated_copies_stay_for_so_long_and_an_older_one_in_any_case(tmp_path: Path) -> None:
    """S3: also of a queue that rotates all the time there is one from so long ago."""
    world = JournalWorld(tmp_path, max_file_messages=2, backups=StateBackups(files=3, age_s=100))
    number = 0

    def rotate() -> None:
        nonlocal number
        world.append("c", number + 1, number + 2)
        world.acknowledge("c", number + 1, number + 2)
        number += 2
        world.clock.advance(SECOND_US)

    for second in range(1000):
        rotate()
        ages = copies(world)
        assert len([age for age in ages if age <= 100]) <= 3 + 1
        assert len(ages) <= 3 + 2
        assert second < 110 or 100 <= ages[-1] <= 201
    world.clock.advance(1000 * SECOND_US)
    rotate()
    rotate()
    ages = copies(world)
    assert (len(ages), ages[0] < 100, 1000 <= ages[-1] < 1010) == (3, True, True)


def test_a_long_state_file_is_compacted_while_it_is_open(tmp_path: Path) -> None:
    """S3: it stays within its bound."""
    world = JournalWorld(tmp_path, durability="os")
    for number in range(1, 1001):
        world.append("c", number)
        world.acknowledge("c", number)
    assert (world.folder("c") / "queue.log").stat().st_size < 70_000
    world.restart()
    assert world.append("c", 2000).serials == [1001]


def test_what_is_torn_is_cut_off_and_the_next_append_is_clean(tmp_path: Path) -> None:
    """S4."""
    world = JournalWorld(tmp_path)
    world.append("c", 1, 2)
    world.journal.close()
    logs = [world.folder("c") / name for name in ("messages.00000001.log", "queue.log")]
    sizes = [path.stat().st_size for path in logs]
    with (world.folder("c") / "messages.00000001.log").open("ab") as file:
        file.write(b"\x30\0\0\0half a message")
    with (world.folder("c") / "queue.log").open("ab") as file:
        file.write(b"read_file=00000001 read_ms")
    world.restart()
    assert world.numbers("c") == [1, 2]
    assert [path.stat().st_size for path in logs] == sizes
    assert world.append("c", 3).serials == [3]
    world.journal.close()
    world.restart()
    assert world.numbers("c") == [1, 2, 3]
    assert quarantined(tmp_path) == []


def test_a_queue_whose_file_is_too_short_is_set_aside_and_all_others_go_on(tmp_path: Path) -> None:
    """S5."""
    world = JournalWorld(tmp_path)
    world.append("broken", 1, 2, 3)
    world.append("sound", 4)
    world.journal.close()
    path = world.folder("broken") / "messages.00000001.log"
    path.write_bytes(path.read_bytes()[:-1])
    world.restart()
    assert world.numbers("sound") == [4]
    with pytest.raises(PermanentError, match=r"set aside: messages.00000001.log holds whole messages up to byte"):
        world.numbers("broken")
    report = quarantined(tmp_path)
    assert [one["client"] for one in report] == ["broken"]
    assert (Path(report[0]["place"]) / "messages.00000001.log").exists()

    # The client begins again, above every serial and number that it ever had.
    assert world.numbers("broken") == []
    assert world.append("broken", 3).serials == [0]
    (serial,) = world.append("broken", 5).serials
    assert serial > 1 << 20
    world.restart()
    assert world.numbers("broken") == [5]
    assert world.numbers("sound") == [4]


def test_without_syncs_a_power_loss_costs_the_last_moments_and_no_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S5, S10 with `os`: the newest state that the files bear out counts, also of queues that no commit file names."""
    world = JournalWorld(tmp_path, durability="os")
    world.append("named", 1)
    world.append("forgotten", 2)
    world.checkpoint()
    world.append("forgotten", 3)
    world.append("named", 4)
    for client_id in ("named", "forgotten"):
        path = world.folder(client_id) / "messages.00000001.log"
        path.write_bytes(path.read_bytes()[:-5])
    (commits,) = commit_files(tmp_path)
    commits.write_bytes(commits.read_bytes()[:40])
    # The process alone was killed: then the kernel had every byte, and what is missing is damage.
    shutil.copytree(tmp_path, tmp_path.with_name("killed"))
    killed = JournalWorld(tmp_path.with_name("killed"), durability="os")
    with pytest.raises(PermanentError, match="set aside"):
        killed.numbers("named")
    monkeypatch.setattr("holdfast.storage.journal.commit.commit_file.boot_id", lambda: b"another boot id!")
    world.restart()
    assert world.recovered.lost == []
    assert (world.numbers("named"), world.numbers("forgotten")) == ([1], [2])
    assert world.append("named", 5).serials == [2]
    assert quarantined(tmp_path) == []


def test_a_message_without_a_state_is_adopted_whole_or_not_at_all(tmp_path: Path) -> None:
    """S6. The commit file is gone as well, as if it had never been written."""
    world = JournalWorld(tmp_path, durability="os")
    world.append("c", 1)
    state = (world.folder("c") / "queue.log").read_bytes()
    world.append("c", 2, 3)
    world.journal.close()
    path = world.folder("c") / "messages.00000001.log"
    whole = path.read_bytes()
    for cut in range(len(whole) - 200, len(whole) + 1):
        path.write_bytes(whole[:cut])
        (world.folder("c") / "queue.log").write_bytes(state)
        world.restart()
        numbers = world.numbers("c")
        assert numbers in ([1], [1, 2], [1, 2, 3])
        assert (numbers == [1, 2, 3]) == (cut == len(whole))
        assert world.append("c", 4).serials == [len(numbers) + 1]
        assert world.numbers("c") == [*numbers, 4]
        world.journal.close()


def test_what_was_given_already_is_not_stored_again(tmp_path: Path) -> None:
    """T13: numbers make an append that is said twice count once, also after a restart."""
    world = JournalWorld(tmp_path)
    world.append("c", 5, 7)
    assert world.append("c", 5, 7, 9).serials == [1, 2, 3]
    world.acknowledge("c", 1)
    world.restart()
    assert world.append("c", 5, 6, 7).serials == [0, 0, 2]
    assert world.numbers("c") == [7, 9]


def test_expired_messages_go_and_count_toward_nothing(tmp_path: Path) -> None:
    """S9, T4."""
    world = JournalWorld(tmp_path)
    soon_us = world.clock.wall_us() + SECOND_US
    entries = [entry(1, expires_us=soon_us), entry(2), entry(3, expires_us=soon_us + SECOND_US)]
    one = pack("c", limits=limits(3))
    one.entries.extend(entries)
    world.journal.append(one)
    world.journal.flush(sync=True)
    world.clock.advance(SECOND_US)
    assert [found.number for found in world.journal.read("c", 0, 9)] == [2, 3]
    assert world.journal.size("c").messages == 2
    appended = world.append("c", 4, limits=limits(3))
    assert (appended.serials, appended.dropped) == ([4], 0)
    world.clock.advance(SECOND_US)
    assert world.journal.expire("c") == 1
    assert world.journal.expire("c") == 0
    world.journal.flush(sync=False)
    assert world.numbers("c") == [2, 4]
    late = world.append("t", 1, limits=limits(9, ttl_s=5))
    assert late.serials == [1]
    assert world.journal.read("t", 0, 1)[0].expires_us == entry(1).message.received_us + 5 * SECOND_US
    assert world.append("t", 2, limits=limits(9, ttl_s=1)).serials == [0]


def test_ending_a_session_removes_its_folder_and_those_above_it(tmp_path: Path) -> None:
    """S9."""
    world = JournalWorld(tmp_path)
    world.append("c", 1, 2)
    world.append("d", 3)
    world.journal.remove(["c", "unknown"])
    assert world.numbers("c") == []
    assert [client for _, client in world.journal.folders.each()] == [world.folder("d")]
    assert not (tmp_path / "queues" / queue_id("c")[:2] / queue_id("c")[2:4]).exists()
    assert world.append("c", 4).serials == [1]
    world.restart()
    assert world.numbers("c") == [4]
    world.journal.remove(["c"])
    world.restart()
    assert world.numbers("c") == []
    assert world.numbers("d") == [3]


def test_a_dropped_queue_leaves_nothing_behind_that_could_hit_the_next_one_of_its_client(tmp_path: Path) -> None:
    """S9: files that wait to be deleted have the same names as those of the next queue."""
    world = JournalWorld(tmp_path, max_file_messages=2)
    world.append("c", 1, 2, 3)
    world.acknowledge("c", 1, 2)
    world.journal.remove(["c"])
    world.append("c", 4, 5, 6)
    world.checkpoint()
    world.journal.close()
    world.restart()
    assert world.numbers("c") == [4, 5, 6]


def test_a_checkpoint_that_is_under_way_does_not_hit_the_next_queue_either(tmp_path: Path) -> None:
    """S9."""
    world = JournalWorld(tmp_path, max_file_messages=2)
    world.append("c", 1, 2, 3)
    world.acknowledge("c", 1, 2)
    begun = world.journal.begin_checkpoint()
    assert begun is not None
    world.journal.remove(["c"])
    world.append("c", 4, 5, 6)
    begun.sync()
    world.journal.end_checkpoint(begun)
    world.journal.close()
    world.restart()
    assert world.numbers("c") == [4, 5, 6]


def test_idle_queues_close_their_files_and_an_empty_one_lets_go_of_them(tmp_path: Path) -> None:
    """S9."""
    world = JournalWorld(tmp_path, idle_s=10)
    world.append("empty", 1)
    world.append("owed", 2)
    world.acknowledge("empty", 1)
    assert len(world.journal._open) == 2
    world.clock.advance(11 * SECOND_US)
    world.journal.close_idle()
    assert len(world.journal._open) == 0
    world.checkpoint()
    assert world.names("empty") == ["queue.log"]
    assert world.names("owed") == ["messages.00000001.log", "queue.log"]
    assert world.append("empty", 3).serials == [2]
    world.restart()
    assert (world.numbers("empty"), world.numbers("owed")) == ([3], [2])


def test_no_more_queues_are_open_than_allowed(tmp_path: Path) -> None:
    """S9, S12."""
    world = JournalWorld(tmp_path, max_open_queues=4)
    for number in range(1, 21):
        world.append(f"c{number}", number)
    assert len(world.journal._open) == 4
    assert [world.numbers(f"c{number}") for number in range(1, 21)] == [[number] for number in range(1, 21)]


def test_a_turn_of_many_queues_costs_one_sync(tmp_path: Path) -> None:
    """S10."""
    world = JournalWorld(tmp_path)
    for number in range(1, 101):
        world.journal.append(pack(f"c{number}", number))
    world.journal.flush(sync=True)
    assert world.journal.syncs == 1
    world.journal.acknowledge("c1", [1])
    world.journal.flush(sync=False)
    assert world.journal.syncs == 1
    world.journal.close()
    relaxed = JournalWorld(tmp_path / "os", durability="os")
    relaxed.append("c", 1)
    assert relaxed.journal.syncs == 0


def test_after_a_failed_sync_nothing_is_written_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S10: what is on disk is not known then."""
    world = JournalWorld(tmp_path)
    world.append("c", 1)

    def fail(_file: CommitFile) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(CommitFile, "sync", fail)
        with pytest.raises(PoisonedError, match="Input/output error"):
            world.append("c", 2)
    with pytest.raises(PoisonedError):
        world.append("c", 3)
    world.restart()
    assert world.numbers("c") in ([1], [1, 2])


def test_a_turn_that_cannot_be_written_has_not_happened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S10, as on a full disk."""
    world = JournalWorld(tmp_path, max_file_messages=2)
    world.append("c", 1)

    def fail(_file: CommitFile, _changes: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(CommitFile, "write", fail)
        for client_id in ("c", "new"):
            with pytest.raises(TransientError, match="No space left"):
                world.append(client_id, 2, 3, 4)
        assert world.numbers("c") == [1]
    assert world.append("c", 2).serials == [2]
    assert world.append("new", 5).serials == [1]
    world.restart()
    assert (world.numbers("c"), world.numbers("new")) == ([1, 2], [5])


def test_other_fragments_than_the_journal_has_are_refused(tmp_path: Path) -> None:
    """S13."""
    world = JournalWorld(tmp_path, fragments=(3, 1))
    world.append("c", 1)
    name = queue_id("c")
    assert world.folder("c") == tmp_path / "queues" / name[:3] / name[3] / name[4:]
    assert json.loads((tmp_path / "layout.json").read_bytes())["fragments"] == [3, 1]
    world.restart(fragments=None)
    assert world.numbers("c") == [1]
    with pytest.raises(SettingsError, match=r"holdfast queue relayout journal:.* --fragments 2,2"):
        world.restart(fragments=(2, 2))
    for wrong in ((0,), (32,), (16, 16)):
        with pytest.raises(SettingsError, match="less than 32"):
            JournalOptions(fragments=wrong)


def test_a_state_that_is_not_of_this_version_is_not_guessed_at() -> None:
    assert decode_state(b"") is None
    assert QueueState().serial == 0
