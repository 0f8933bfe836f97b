"""Files that were cut, flipped or lost: a queue comes back as it was at some moment, or is set aside; never wrong."""

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast.storage.journal.commit.recovery as recovery_module
import holdfast.storage.journal.journal as journal_module
from holdfast.files.folders import remove_folder
from holdfast.model.errors import PermanentError
from holdfast.storage.journal.quarantine import quarantined
from tests.journal_world import JournalWorld

#: What is done to the queue `c`, in order: numbers that are appended, serials that are acknowledged or released.
STORY: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("append", (1, 2)),
    ("acknowledge", (2,)),
    ("append", (3,)),
    ("release", (3,)),
    ("acknowledge", (1,)),
    ("append", (4,)),
)
APPENDED = [number for verb, numbers in STORY if verb == "append" for number in numbers]
ACKNOWLEDGED = [number for verb, numbers in STORY if verb == "acknowledge" for number in numbers]
END = [3, 4]


@pytest.fixture(autouse=True)
def _no_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files are damaged by hand here, so that nothing is gained by waiting for a disk."""
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)
    monkeypatch.setattr(os, "fdatasync", lambda _descriptor: None)


def told(root: Path, *, closed: bool) -> JournalWorld:
    """Numbers and serials of `c` are the same; a file holds three messages, so that there are two of them."""
    world = JournalWorld(root, max_file_messages=3, fragments=(2,))
    world.append("other", 1)
    for verb, numbers in STORY:
        getattr(world, verb)("c", *numbers)
    assert world.numbers("c") == END
    if closed:
        world.journal.close()
    return world


def is_a_moment(numbers: list[int]) -> bool:
    """Whether this was owed, or could have been: some first appends, without what some first acknowledgements took."""
    for appends in range(len(APPENDED) + 1):
        for acknowledgements in range(len(ACKNOWLEDGED) + 1):
            if numbers == [one for one in APPENDED[:appends] if one not in ACKNOWLEDGED[:acknowledgements]]:
                return True
    return False


def check(world: JournalWorld, what: object) -> list[int] | None:
    """What is owed after a restart; None if the queue was set aside."""
    world.restart()
    assert world.numbers("other") == [1], what
    lost = bool(world.recovered.lost)
    try:
        numbers = world.numbers("c")
    except PermanentError:
        lost = True
    assert lost == bool([one for one in quarantined(world.root) if "client" in one]), what
    if lost:
        numbers = world.numbers("c")
        assert numbers == [], what
    assert is_a_moment(numbers), (what, numbers)
    queue = world.journal._queue("c")
    queue.check_invariants()
    (fresh,) = world.append("c", 100).serials
    assert fresh == queue.serial > max(numbers, default=0), what
    assert world.numbers("c") == [*numbers, 100], what
    world.journal.close()
    return None if lost else numbers


class Damage:
    """Copies of a world with one damaged file, one after the other in the same folder."""

    def __init__(self, world: JournalWorld, root: Path) -> None:
        self._world = world
        self._root = root
        self._folders = [path.relative_to(world.root) for path in sorted(world.root.rglob("*")) if path.is_dir()]
        self._files = {
            path.relative_to(world.root): path.read_bytes() for path in world.root.rglob("*") if path.is_file()
        }

    def with_file(self, path: Path, data: bytes) -> JournalWorld:
        """The world as it was, but for this file. What has stayed the same since the copy before is not written again:
        making folders and files takes longer than all that is tested.
        """
        wanted = {**self._files, path: data}
        self._keep(wanted)
        for name, content in wanted.items():
            file = self._root / name
            if not file.exists() or file.read_bytes() != content:
                file.write_bytes(content)
        again = JournalWorld.__new__(JournalWorld)
        again.root, again.clock, again.options = self._root, self._world.clock, self._world.options
        return again

    def _keep(self, wanted: dict[Path, bytes]) -> None:
        """Ensures: there are all folders of the world, and nothing that it does not have."""
        self._root.mkdir(exist_ok=True)
        for there in sorted(self._root.rglob("*"), reverse=True):
            name = there.relative_to(self._root)
            if there.is_dir() and name not in self._folders:
                there.rmdir()
            elif not there.is_dir() and name not in wanted:
                there.unlink()
        for folder in self._folders:
            (self._root / folder).mkdir(exist_ok=True)


def files_of(root: Path) -> Iterator[Path]:
    for path in sorted(root.rglob("*.log")):
        yield path.relative_to(root)


@pytest.mark.slow
@pytest.mark.timeout(300)  # thousands of folders are synced
@pytest.mark.parametrize("closed", [True, False])
def test_a_queue_whose_files_were_cut_anywhere_is_a_queue_of_some_moment_or_set_aside(
    tmp_path: Path, closed: bool
) -> None:
    """S4, S5, S6: every file at every byte, after an end in order and after a kill."""
    world = told(tmp_path / "told", closed=closed)
    folder = world.folder("c").relative_to(world.root)
    damage = Damage(world, tmp_path / "cut")
    kept, lost = 0, 0
    for path in files_of(world.root):
        if path.parent not in (folder, Path()):
            continue
        whole = (world.root / path).read_bytes()
        for cut in range(len(whole)):
            numbers = check(damage.with_file(path, whole[:cut]), (path, cut))
            kept += numbers is not None
            lost += numbers is None
            if not closed:
                # What is cut off the queue's own files is in the commit file, and the other way round.
                assert numbers == END, (path, cut)
    assert kept > 100
    assert (lost > 100) == closed


@pytest.mark.slow
@pytest.mark.parametrize("closed", [True, False])
def test_a_queue_with_a_flipped_byte_is_a_queue_of_some_moment_or_set_aside(tmp_path: Path, closed: bool) -> None:
    """S5: damage is found by checksums, wherever it is."""
    world = told(tmp_path / "told", closed=closed)
    folder = world.folder("c").relative_to(world.root)
    damage = Damage(world, tmp_path / "flipped")
    outcomes: set[bool] = set()
    for path in files_of(world.root):
        if path.parent not in (folder, Path()):
            continue
        whole = (world.root / path).read_bytes()
        for at in range(0, len(whole), 11):
            data = bytearray(whole)
            data[at] ^= 1 << (at % 8)
            outcomes.add(check(damage.with_file(path, bytes(data)), (path, at)) is None)
    assert outcomes == ({True, False} if closed else {False})


class Disk:
    """Remembers what was synced. `lose_power` leaves that, and of the rest whatever chance says."""

    def __init__(self, root: Path, chance: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.chance = chance
        self.synced: dict[Path, bytes] = {}
        #: Folders that were removed, with what they held, until a folder above them is synced.
        self.ghosts: dict[Path, dict[Path, bytes]] = {}
        monkeypatch.setattr(os, "fsync", self._sync)
        monkeypatch.setattr(os, "fdatasync", self._sync)
        for user in (journal_module, recovery_module):
            monkeypatch.setattr(user, "remove_folder", self._remove)

    def _sync(self, descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if path.is_file():
            # The next name of a new file comes from a rename, which is synced with the folder.
            renamed = path.with_name(path.name[1:].rsplit(".", 2)[0]) if path.suffix == ".part" else path
            self.synced[renamed] = path.read_bytes()
        elif path.is_dir():
            for gone in [one for one in self.synced if path in one.parents and not one.exists()]:
                del self.synced[gone]
            for folder in [one for one in self.ghosts if path in one.parents]:
                del self.ghosts[folder]

    def _remove(self, folder: Path, root: Path) -> Path:
        self.ghosts[folder] = {path: data for path, data in self.synced.items() if path.parent == folder}
        for path in self.ghosts[folder]:
            del self.synced[path]
        return remove_folder(folder, root)

    def lose_power(self) -> None:
        for path in sorted({*self.synced, *(one for one in self.root.rglob("*") if one.is_file())}):
            if path.name == "layout.json":
                continue
            before = self.synced.get(path)
            now = path.read_bytes() if path.exists() else None
            self._put(path, self.chance.choice([before, now, self._torn(before, now)]))
        for folder, files in self.ghosts.items():
            if self.chance.random() < 0.5:
                shutil.rmtree(folder, ignore_errors=True)
                for path, data in files.items():
                    self._put(path, data)
        self.ghosts.clear()
        self.synced = {path: path.read_bytes() for path in self.root.rglob("*") if path.is_file()}

    def _put(self, path: Path, data: bytes | None) -> None:
        if data is None:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    def _torn(self, before: bytes | None, now: bytes | None) -> bytes | None:
        """What was synced, and a part of what came after it; or zeros in its place."""
        if now is None or (before is not None and not now.startswith(before)):
            return before
        kept = len(before or b"")
        cut = self.chance.randint(kept, len(now))
        return now[:cut] + (b"\0" * (len(now) - cut) if self.chance.random() < 0.5 else b"")


@pytest.mark.parametrize("seed", range(15))
def test_what_was_promised_survives_a_power_loss_that_takes_what_was_not_synced(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S10, S4, S6: appended means there, removed means gone, and nothing has to be set aside."""
    chance = random.Random(seed)
    disk = Disk(tmp_path, chance, monkeypatch)
    world = JournalWorld(tmp_path, max_file_messages=4)
    owed: dict[str, list[int]] = {"a": [], "b": [], "c": []}
    #: Acknowledged, and perhaps not synced yet.
    taken: dict[str, set[int]] = {"a": set(), "b": set(), "c": set()}
    number = 0
    for _step in range(60):
        client_id = chance.choice("abc")
        match chance.choice(["append", "append", "acknowledge", "drop", "checkpoint", "power"]):
            case "append":
                numbers = list(range(number + 1, number + chance.randint(2, 5)))
                number = numbers[-1]
                world.append(client_id, *numbers)
                owed[client_id] += numbers
            case "acknowledge" if owed[client_id]:
                waiting = world.journal.read(client_id, 0, 1000)
                some = waiting[: chance.randint(1, 6)] if chance.random() < 0.7 else [chance.choice(waiting)]
                world.acknowledge(client_id, *[one.owed.serial for one in some])
                gone = {one.number for one in some}
                owed[client_id] = [one for one in owed[client_id] if one not in gone]
                taken[client_id] |= gone
            case "drop" if chance.random() < 0.3:
                world.journal.remove([client_id])
                owed[client_id], taken[client_id] = [], set()
            case "checkpoint":
                begun = world.journal.begin_checkpoint() or next(iter(world.journal._ending), None)
                if begun is not None:
                    begun.sync()
                    if chance.random() < 0.7:
                        world.journal.end_checkpoint(begun)
            case "power":
                for open_one in list(world.journal._open.values()):
                    open_one.close()
                disk.lose_power()
                world.restart()
                assert world.recovered.lost == []
                for each in "abc":
                    found = world.numbers(each)
                    assert found == sorted(found)
                    assert set(owed[each]) <= set(found) <= set(owed[each]) | taken[each]
                    owed[each] = found
                    world.journal._queue(each).check_invariants()
                taken = {"a": set(), "b": set(), "c": set()}
    assert quarantined(tmp_path) == []
