"""What a replay knows of itself, in a folder, so that it can be killed and go on.

    FOLDER/plan.json         what is replayed, made once: never a moving target
    FOLDER/connection-3      up to which number everything of connection 3 is acknowledged, and how much that was
    FOLDER/complete          there is nothing more to do
    FOLDER/lock              held by the process that replays

1. The plan is on the disk before the first message leaves. It names the messages (by time, and by the last position of
   each shard), the number of connections, on which it depends which messages each of them has, and an id, which is
   part of their client ids. So a message goes out through the same client id, with the same number, whoever sends it.
2. A note is never ahead of what the broker has acknowledged. It may be behind: what is sent again has been taken by the
   broker before, and is not taken twice. A note that is lost costs time and nothing else.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.model.errors import PermanentError, SettingsError, TransientError
from holdfast.pipeline.replay_schedule import Round

#: Never change: in the files.
_VERSION: Final = 1
_PLAN: Final = "plan.json"
_COMPLETE: Final = "complete"
_LOCK: Final = "lock"
_CONNECTION: Final = "connection-"


class Note(NamedTuple):
    """How far a connection is."""

    #: The last one of which it and all before it are acknowledged.
    number: int
    messages: int
    #: Of topics and payloads.
    bytes: int


#: Before the first message.
NOTHING: Final = Note(-1, 0, 0)


class Plan(NamedTuple):
    """What a replay is."""

    id: str
    #: What was asked for, in words that are compared with those of the next run.
    asked: Mapping[str, str]
    #: The last position of each shard that belongs to it.
    bounds: Mapping[int, int]
    connections: int
    rounds: Sequence[Round]
    #: The first and the last message.
    first_us: int
    last_us: int

    @property
    def messages(self) -> int:
        return sum(one.messages for one in self.rounds)


class State:
    """Made by `taken`."""

    def __init__(self, folder: Path) -> None:
        self.folder: Final = folder

    def plan(self, asked: Mapping[str, str]) -> Plan | None:
        """None: there is none yet. SettingsError if it was made for something else."""
        try:
            found = json.loads((self.folder / _PLAN).read_text(encoding="utf-8"))
            if found.pop("version") != _VERSION:
                raise PermanentError(f"{self.folder / _PLAN} is of another version of Holdfast; use another name")
            rounds = [Round(*one) for one in found.pop("rounds")]
            bounds = {int(shard): offset_us for shard, offset_us in found.pop("bounds").items()}
            plan = Plan(**found, bounds=bounds, rounds=rounds)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise PermanentError(f"{self.folder / _PLAN} cannot be read: {error}; use another name") from error
        for key in sorted({*asked, *plan.asked}):
            before, now = plan.asked.get(key), asked.get(key)
            if before != now:
                raise SettingsError(
                    f"the replay {self.folder.name} was begun with {key} {before or 'not given'}, and now it is "
                    f"{now or 'not given'}; give what it was, or another --name"
                )
        return plan

    def keep(self, plan: Plan) -> None:
        """Survives: a power loss, when it has returned."""
        content = plan._asdict() | {"version": _VERSION, "asked": dict(plan.asked)}
        new = self.folder / f"{_PLAN}.new"
        with new.open("w", encoding="utf-8") as out:
            json.dump(content, out)
            out.flush()
            os.fsync(out.fileno())
        new.replace(self.folder / _PLAN)
        self._sync()

    def notes(self, connections: int) -> list[Note]:
        return [read_note(self.folder, connection) for connection in range(connections)]

    @property
    def is_complete(self) -> bool:
        return (self.folder / _COMPLETE).exists()

    def complete(self) -> None:
        (self.folder / _COMPLETE).touch()
        self._sync()

    def _sync(self) -> None:
        from holdfast.pipeline.delta_files import sync  # not for workers, who come through here as well

        sync(self.folder)


@contextmanager
def taken(folder: Path) -> Iterator[State]:
    """Be the only one who replays with this state, for the length of a block. SettingsError if there is another."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise SettingsError(f"--state: {folder} cannot be written: {error.strerror}") from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SettingsError(
                f"the replay {folder.name} is running already; wait for it, or give another --name"
            ) from None
        yield State(folder)
    finally:
        os.close(lock)


def read_note(folder: Path, connection: int) -> Note:
    try:
        number, messages, size = map(int, (folder / f"{_CONNECTION}{connection}").read_text(encoding="ascii").split())
    except (OSError, ValueError):
        return NOTHING
    return Note(number, messages, size)


def write_note(folder: Path, connection: int, note: Note) -> None:
    """Not synced: see rule 2. TransientError if it cannot be written."""
    # Another attempt of the same task may do the same.
    new = folder / f"{_CONNECTION}{connection}.{os.getpid()}.new"
    try:
        new.write_text(f"{note.number} {note.messages} {note.bytes}\n", encoding="ascii")
        new.replace(folder / f"{_CONNECTION}{connection}")
    except OSError as error:
        with suppress(OSError):
            new.unlink()
        raise TransientError(f"{folder} cannot be written: {error.strerror}") from error
