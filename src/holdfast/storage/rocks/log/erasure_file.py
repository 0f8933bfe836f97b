"""Erasures, in a file of the data folder: the process that erases writes it, and every reader of the log reads it.

A job beside the broker cannot write to the broker's database, so what it has erased is told as leases are, by a file:

    <data folder>/erasures.json
        {"version": 1, "erasures": [{"client": "meter-7", "made_us": …, "made_by": "ops@host", "positions": {"0": …}},
                                    {"topic": "plant/#", …}]}

1. The file is replaced as a whole, and synced with its name: when `erase` has returned, the erasure survives a power
   loss. One that is made again covers more, never less.
2. A file that cannot be read is an error: a reader that went on without it would show what was erased.
3. Erasures stay for good. A backup has them; one that was made before an erasure has not, and brings back what it had.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from holdfast.durable.erasures import Erasure, Erasures, no_erasures
from holdfast.files.lock import FileLock
from holdfast.files.private import FILE_MODE, give_to_owner
from holdfast.files.replacement import open_replacement, read_json
from holdfast.model.errors import PeerError, PermanentError, TransientError
from holdfast.topics.filters import parse_filter

FILE_NAME: Final = "erasures.json"
_LOCK_NAME: Final = "erasures.lock"
#: Never change: in the file.
_VERSION: Final = 1
#: Every reader holds all of them, and asks them for each message they may cover.
MAX_ERASURES: Final = 10_000


class ErasureFile:
    """The reading side: looks whether the file has changed, which costs a microsecond."""

    def __init__(self, folder: Path) -> None:
        self._path: Final = folder / FILE_NAME
        self._seen: tuple[int, int, int] | None = None
        self._erasures = no_erasures()

    def current(self) -> Erasures:
        """The same object as long as nothing has changed. PermanentError if the file cannot be read."""
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            if self._seen is not None:
                self._seen, self._erasures = None, no_erasures()
            return self._erasures
        # Replaced as a whole: another file has another number.
        seen = (found.st_ino, found.st_mtime_ns, found.st_size)
        if seen != self._seen:
            self._erasures = Erasures(_read(self._path))
            self._seen = seen
        return self._erasures


def read_erasures(folder: Path) -> list[Erasure]:
    """Those of a data folder, the oldest first."""
    return _read(folder / FILE_NAME)


def erase(
    folder: Path, *, client: str = "", topic: str = "", up_to: Mapping[int, int], now_us: int, made_by: str
) -> Erasure:
    """Hide what a client has published, or what was published to the topics of a filter, up to these positions.

    Survives: a power loss, when it has returned.
    """
    made = Erasure(client, _levels(topic), {shard: up_to[shard] for shard in sorted(up_to)}, now_us, made_by)
    with _alone(folder):
        there = _read(folder / FILE_NAME)
        for erasure in there:
            if erasure.what == made.what:
                for shard, position_us in erasure.up_to.items():
                    made.up_to[shard] = max(position_us, made.up_to.get(shard, 0))
        kept = [erasure for erasure in there if erasure.what != made.what]
        if len(kept) >= MAX_ERASURES:
            raise PermanentError(
                f"{folder} has {MAX_ERASURES} erasures, and there may not be more; erase by a filter that covers many"
            )
        _write(folder, [*kept, made])
    return made


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    try:
        lock = FileLock(folder / _LOCK_NAME)
    except OSError as error:
        raise PermanentError(f"{folder} cannot be written: {error.strerror}; erasing needs the right to") from error
    with lock:
        lock.acquire()
        yield


def _write(folder: Path, erasures: list[Erasure]) -> None:
    content = {"version": _VERSION, "erasures": [_fields(erasure) for erasure in erasures]}
    try:
        with open_replacement(folder / FILE_NAME, mode=FILE_MODE) as file:
            file.write(json.dumps(content, ensure_ascii=False).encode())
            give_to_owner(file.fileno(), folder)  # the broker may be another user
    except OSError as error:
        raise TransientError(f"the erasure cannot be written to {folder}: {error.strerror}") from error


def _fields(erasure: Erasure) -> dict[str, Any]:
    about = {"client": erasure.client} if erasure.client else {"topic": b"/".join(erasure.levels).decode()}
    positions = {str(shard): position_us for shard, position_us in erasure.up_to.items()}
    return {**about, "made_us": erasure.made_us, "made_by": erasure.made_by, "positions": positions}


def _read(path: Path) -> list[Erasure]:
    try:
        content = read_json(path, _VERSION)
        return [_erasure(fields) for fields in content["erasures"]]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise PermanentError(f"{path} cannot be read: {error.strerror}; it says what was erased") from error
    except (ValueError, KeyError, TypeError, AttributeError, PeerError) as error:
        raise PermanentError(
            f"{path} is damaged ({error!r}): it says what was erased, and without it nothing is shown; bring it back"
        ) from error


def _erasure(fields: dict[str, Any]) -> Erasure:
    positions = {int(shard): int(position_us) for shard, position_us in fields["positions"].items()}
    client = str(fields.get("client", ""))
    levels = () if client else _levels(fields["topic"])
    return Erasure(client, levels, positions, int(fields["made_us"]), str(fields["made_by"]))


def _levels(topic: str) -> tuple[bytes, ...]:
    return parse_filter(topic.encode()).levels if topic else ()
