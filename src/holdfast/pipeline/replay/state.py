"""The state of a replay in a folder, so that it can be killed and go on.

    FOLDER/plan.json         what is replayed, made once: never a moving target
    FOLDER/connection-3      up to which number everything of connection 3 is acknowledged, and how much that was
    FOLDER/complete          there is nothing more to do
    FOLDER/lock              held by the process that replays

1. The plan is on the disk before the first message leaves. It names the messages (by time, and by the last position of
   each shard), the number of connections, on which it depends which messages each of them has, and an id, which is
   part of their client ids. So a message goes out through the same client id, with the same number, in every run.
2. A note is never ahead of what the broker has acknowledged. It may be behind: what is sent again has been taken by the
   broker before, and is not taken twice. A note that is lost costs time and nothing else.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.files.lock import FileLock
from holdfast.files.replacement import read_json, replace_file, replace_json, sync_path
from holdfast.model.errors import PermanentError, SettingsError, TransientError
from holdfast.pipeline.replay.schedule import ReplayRound

#: Never change: in the files.
_VERSION: Final = 1
_PLAN: Final = "plan.json"
_COMPLETE: Final = "complete"
_LOCK: Final = "lock"
_CONNECTION: Final = "connection-"


class ConnectionProgress(NamedTuple):
    """How far a connection is."""

    #: The last one of which it and all before it are acknowledged.
    number: int
    messages: int
    #: Of topics and payloads.
    bytes: int


#: Before the first message.
NOTHING: Final = ConnectionProgress(-1, 0, 0)


class ReplayPlan(NamedTuple):
    """What is replayed, made once."""

    id: str
    #: The options of the first run, compared with those of the next.
    asked: Mapping[str, str]
    #: The last position of each shard that belongs to it.
    bounds: Mapping[int, int]
    connections: int
    rounds: Sequence[ReplayRound]
    #: The first and the last message.
    first_us: int
    last_us: int

    @property
    def messages(self) -> int:
        return sum(one.messages for one in self.rounds)


class ReplayState:
    """Made by `open_state`."""

    def __init__(self, folder: Path) -> None:
        self.folder: Final = folder

    def plan(self, asked: Mapping[str, str]) -> ReplayPlan | None:
        """None: there is none yet. SettingsError if it was made for something else."""
        try:
            found = read_json(self.folder / _PLAN, _VERSION)
            del found["version"]
            rounds = [ReplayRound(*one) for one in found.pop("rounds")]
            bounds = {int(shard): offset_us for shard, offset_us in found.pop("bounds").items()}
            plan = ReplayPlan(**found, bounds=bounds, rounds=rounds)
        except FileNotFoundError:
            return None
        except PermanentError as error:
            raise PermanentError(f"{error}; use another name") from None
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

    def keep(self, plan: ReplayPlan) -> None:
        """Survives: a power loss, when it has returned."""
        content = plan._asdict() | {"version": _VERSION, "asked": dict(plan.asked)}
        replace_json(self.folder / _PLAN, content)

    def notes(self, connections: int) -> list[ConnectionProgress]:
        return [read_note(self.folder, connection) for connection in range(connections)]

    @property
    def is_complete(self) -> bool:
        return (self.folder / _COMPLETE).exists()

    def complete(self) -> None:
        (self.folder / _COMPLETE).touch()
        sync_path(self.folder)


@contextmanager
def open_state(folder: Path) -> Iterator[ReplayState]:
    """Lock the state of a replay for the length of a block. SettingsError if another process has it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / _LOCK, mode=0o644)
    except OSError as error:
        raise SettingsError(f"--state: {folder} cannot be written: {error.strerror}") from error
    with lock:
        if not lock.acquire(wait_s=0):
            raise SettingsError(f"the replay {folder.name} is running already; wait for it, or give another --name")
        yield ReplayState(folder)


def read_note(folder: Path, connection: int) -> ConnectionProgress:
    try:
        number, messages, size = map(int, (folder / f"{_CONNECTION}{connection}").read_text(encoding="ascii").split())
    except (OSError, ValueError):
        return NOTHING
    return ConnectionProgress(number, messages, size)


def write_note(folder: Path, connection: int, note: ConnectionProgress) -> None:
    """Not synced: see rule 2. TransientError if it cannot be written."""
    content = f"{note.number} {note.messages} {note.bytes}\n".encode()
    try:
        replace_file(folder / f"{_CONNECTION}{connection}", content, sync=False)
    except OSError as error:
        raise TransientError(f"{folder} cannot be written: {error.strerror}") from error
