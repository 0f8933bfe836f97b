"""A folder with thousands of range tombstones, as earlier versions left them, opens in bounded memory."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from holdfast.durable.changes import Changes
from holdfast.durable.tails import POSITION
from holdfast.records.session.session_keys import client_prefix, packet_range, progress_key, session_range
from holdfast.storage.rocks.engine.column_families import SESSIONS
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.engine.range_tombstones import FEW, crc32c, range_tombstones, thin_wal
from holdfast.storage.rocks.engine.scan import get_one, scan_items
from holdfast.storage.rocks.engine.wal_scan import wal_files
from holdfast.storage.rocks.layouts.layout import MESSAGES

#: Writes what saved progress used to write, and is killed: progress, done markers, nested range deletions from the
#: same key; and between them sessions that end.
WRITER: Final = """
import os, sys
from pathlib import Path
from holdfast.durable.changes import Changes
from holdfast.records.session.session_keys import client_prefix, progress_key, session_range
from holdfast.storage.rocks.engine.column_families import SESSIONS
from holdfast.storage.rocks.engine.engine import Engine

engine = Engine.open(Path(sys.argv[1]), reserve_bytes=0)
done = client_prefix("quiet") + b"\\x06\\x00\\x00"
for number in range(1, int(sys.argv[2]) + 1):
    changes = Changes()
    puts = changes.into(SESSIONS)
    puts.put(progress_key("quiet"), b"%d" % number)
    puts.put(done + number.to_bytes(8, "big"), b"")
    puts.put(done + (number + 1).to_bytes(8, "big"), b"")
    puts.delete_range(done + bytes(8), done + (number + 1).to_bytes(8, "big"))
    if number % 7 == 0:
        puts.put(client_prefix("will") + b"\\x00", b"x" * (40_000 if number % 700 == 0 else 40))
        puts.delete_range(*session_range("will"))
        puts.put(client_prefix("will") + b"\\x05", b"%d" % number)
    engine.write(number, changes)
engine.sync_now()
os.kill(os.getpid(), 9)
"""


def left_behind(folder: Path, count: int) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", WRITER, str(folder), str(count)], env=environment, check=False)
    assert (folder / "rocks").is_dir()


def contents(engine: Engine) -> list[tuple[bytes, bytes]]:
    return list(scan_items(engine.family(SESSIONS), b"\x00", b"\xfe"))


def expected(count: int) -> list[tuple[bytes, bytes]]:
    done = client_prefix("quiet") + b"\x06\x00\x00" + (count + 1).to_bytes(8, "big")
    last = count - count % 7
    will = (client_prefix("will") + b"\x05", b"%d" % last)
    return sorted([will, (progress_key("quiet"), b"%d" % count), (done, b"")])


def test_nested_range_tombstones_of_a_killed_broker_are_taken_out_of_the_wal(tmp_path: Path) -> None:
    count = 4_000
    left_behind(tmp_path, count)
    covered = thin_wal(tmp_path / "rocks")
    assert covered == count + count // 7 - 2  # one of each kind is left
    assert thin_wal(tmp_path / "rocks") == 0
    engine = Engine.open(tmp_path, reserve_bytes=0)
    assert not engine.damage
    assert engine.torn_tail is None
    assert contents(engine) == expected(count)
    engine.close()


def test_such_a_folder_opens_in_bounded_memory(tmp_path: Path) -> None:
    """Without thinning, 4,000 of them take more than a gigabyte."""
    left_behind(tmp_path, 4_000)
    opener = (
        "import sys\nfrom pathlib import Path\nfrom holdfast.storage.rocks.engine.engine import Engine\n"
        "Engine.open(Path(sys.argv[1]), reserve_bytes=0).close()\n"
        "print('\\n' + Path('/proc/self/status').read_text())\n"
    )
    opened = subprocess.run(
        [sys.executable, "-c", opener, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    # The peak of this process alone: what wait4 tells begins with that of the process that started it.
    [peak] = [line.split()[1] for line in opened.stdout.splitlines() if line.startswith("VmHWM:")]
    assert int(peak) < 512 << 10


def test_tables_with_many_range_tombstones_are_compacted_at_open(tmp_path: Path) -> None:
    engine = Engine.open(tmp_path, reserve_bytes=0)
    changes = Changes()
    puts = changes.into(SESSIONS)
    for number in range(FEW * 2):
        puts.put(client_prefix(f"c{number}") + b"\x00", b"x")
        if number:
            puts.delete_range(*session_range(f"c{number}"))
    engine.write(engine.written + 1, changes)
    engine.flush()
    assert range_tombstones(engine.family(SESSIONS)) == FEW * 2 - 1
    engine.close()
    again = Engine.open(tmp_path, reserve_bytes=0)
    assert range_tombstones(again.family(SESSIONS)) == 0
    assert get_one(again.family(SESSIONS), client_prefix("c0") + b"\x00") == b"x"
    again.close()


def test_range_tombstones_that_no_later_one_covers_stay(tmp_path: Path) -> None:
    """Here each ends before the one in front of it: none may go."""
    left_behind(tmp_path, 1)
    engine = Engine.open(tmp_path, reserve_bytes=0)
    for number in range(FEW * 2):
        changes = Changes()
        prefix = client_prefix("c")
        changes.into(SESSIONS).put(prefix + b"\x05", b"x")
        changes.into(SESSIONS).delete_range(prefix, prefix + bytes((255 - number,)))
        engine.write(engine.written + 1, changes)
    engine.sync_now()
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in wal_files(tmp_path / "rocks"):
        (copy / path.name).write_bytes(path.read_bytes())
    engine.close()
    assert thin_wal(copy) == 0


@pytest.mark.parametrize("cut", [1, 5_000, 40_000])
def test_what_lies_behind_damage_covers_nothing(tmp_path: Path, cut: int) -> None:
    left_behind(tmp_path, 2_000)
    whole = thin_wal_of_copy(tmp_path, 0)
    assert 0 < thin_wal_of_copy(tmp_path, cut) < whole


def test_what_covers_is_on_disk_before_anything_is_taken_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed broker leaves the end of its WAL in the page cache. A power loss must not take that alone."""
    left_behind(tmp_path, FEW)
    files = {path.name for path in wal_files(tmp_path / "rocks") if path.stat().st_size}
    acts: list[str] = []
    sync, replace = os.fsync, Path.replace

    def synced(descriptor: int) -> None:
        acts.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        sync(descriptor)

    def replaced(path: Path, target: Path) -> Path:
        acts.append("replace")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    assert thin_wal(tmp_path / "rocks")
    assert files <= set(acts[: acts.index("replace")])


def thin_wal_of_copy(folder: Path, cut: int) -> int:
    copy = folder / f"copy-{cut}"
    copy.mkdir()
    files = wal_files(folder / "rocks")
    for path in files:
        content = bytearray(path.read_bytes())
        if cut and path == files[-1]:
            content[-cut] ^= 0x10
        (copy / path.name).write_bytes(content)
    return thin_wal(copy)


def test_the_checksum_is_that_of_the_standard() -> None:
    assert crc32c(b"123456789") == 0xE3069283


def killed_with(folder: Path, ranges: list[tuple[bytes, bytes]], family: str) -> Path:
    """A database as a killed broker leaves it, with these range deletions in its WAL."""
    engine = Engine.open(folder / "live", reserve_bytes=0)
    if family not in engine.families():
        engine.create_family(family)
    for lo, hi in ranges:
        changes = Changes()
        changes.into(family).put(b"key", b"x" * 100)
        changes.into(family).delete_range(lo, hi)
        engine.write(engine.written + 1, changes)
    engine.sync_now()
    shutil.copytree(folder / "live" / "rocks", folder / "killed")
    engine.close()
    return folder / "killed"


def test_deletions_of_commit_pages_are_not_taken_for_those_of_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole WAL would be read in vain at each start: a node makes hundreds of segments before a WAL ends."""
    firsts_us = [1_700_000_000_000_000 + 40_000_000 * number for number in range(3 * FEW)]
    ranges = [(MESSAGES + POSITION.pack(at_us), MESSAGES + POSITION.pack(at_us + 39_000_000)) for at_us in firsts_us]
    killed = killed_with(tmp_path, ranges, "log-00000-00000001")
    read: list[int] = []
    monkeypatch.setattr("holdfast.storage.rocks.engine.range_tombstones._records", lambda wal: read.append(len(wal)))
    assert thin_wal(killed) == 0
    assert read == []


@pytest.mark.parametrize("client_id", ["c", "quiet", "client", "a-longer-client-id"])
@pytest.mark.parametrize("kind", ["session", "packets"])
def test_deletions_of_sessions_are_found_however_long_a_client_id_is(tmp_path: Path, client_id: str, kind: str) -> None:
    """Five and six bytes: keys of nine bytes, as those of commit pages are."""
    ranges = [session_range(client_id) if kind == "session" else packet_range(client_id)] * 3 * FEW
    assert thin_wal(killed_with(tmp_path, ranges, SESSIONS)) == 3 * FEW - 1
