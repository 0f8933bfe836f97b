"""Events on disk, outside the database, so that they can be read when it cannot.

    <data folder>/events/expired.jsonl        the newest events of this reason, the oldest first
                         expired.old.jsonl    those before them

1. A full file becomes the old one, and the old one is deleted: a flood of one reason uses at most twice the size, and
   costs no event of another reason.
2. Nothing is synced and no file is held open. A kill -9 loses the last second, a power loss perhaps half a minute.
3. A line that cannot be read is left out: the last one after a crash, as a rule.
4. Events that cannot be written are lost, which is logged once.
"""

import os
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog

from holdfast.files.private import FOLDER_MODE
from holdfast.model.errors import PermanentError
from holdfast.records.events import Event, decode_event, encode_event

_log = structlog.get_logger()

#: Bytes of one file: about 8,000 events.
MAX_FILE_BYTES: Final = 1 << 20
_FOLDER: Final = "events"
_SUFFIX: Final = ".jsonl"
_OLD: Final = ".old.jsonl"


class EventFiles:
    """The writing side. One for each data folder."""

    def __init__(self, data: Path, max_file_bytes: int = MAX_FILE_BYTES) -> None:
        self._folder: Final = data / _FOLDER
        self._max_file_bytes: Final = max_file_bytes
        self._complained = False
        #: Files whose last line is known to be complete.
        self._whole: Final[set[str]] = set()

    def write(self, events: Iterable[Event]) -> None:
        """Survives: a killed process."""
        lines: dict[str, list[bytes]] = defaultdict(list)
        for event in events:
            lines[event.reason].append(encode_event(event))
        try:
            for reason, own in lines.items():
                self._append(reason, b"".join(own))
        except OSError as error:
            if not self._complained:
                _log.warning("events are not stored", why=error.strerror)
            self._complained = True

    def _append(self, reason: str, data: bytes) -> None:
        self._folder.mkdir(FOLDER_MODE, exist_ok=True)
        path = self._folder / f"{reason}{_SUFFIX}"
        with path.open("ab") as file:
            size_bytes = file.tell()
            if reason not in self._whole and size_bytes and not _ends_whole(path):
                data = b"\n" + data
            file.write(data)
        self._whole.add(reason)
        if size_bytes + len(data) >= self._max_file_bytes:
            path.replace(self._folder / f"{reason}{_OLD}")


def _ends_whole(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def read_events(data: Path) -> list[Event]:
    """Every event that a data folder has, the oldest first. A broker may be writing meanwhile."""
    found: dict[Event, None] = {}
    folder = data / _FOLDER
    names = {path.name.removesuffix(_SUFFIX).removesuffix(".old") for path in folder.glob(f"*{_SUFFIX}")}
    for reason in names:
        # The new file first: if it becomes the old one now, it is read twice, and an event counts once.
        for suffix in (_SUFFIX, _OLD):
            found.update(dict.fromkeys(_events_of(folder / f"{reason}{suffix}")))
    return sorted(found, key=lambda event: event.time_us)


def _events_of(path: Path) -> list[Event]:
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    found: list[Event] = []
    for line in lines:
        with suppress(PermanentError):
            found.append(decode_event(line))
    return found
