"""The audit file: who changed what, from where, and how it ended. A file of JSON lines for each day, kept for 90 days.

    {"id": "…", "at_us": …, "name": "eva", "kind": "user", "role": "operator", "address": "…", "what": "kick",
     "target": "press-9", "detail": {…}}                                  synced before the change is made
    {"id": "…", "at_us": …, "outcome": "done"}                            behind it

1. No change without its first line on disk: if that cannot be written, the change is refused.
2. A change without an outcome was under way when the console ended.
3. No secret is written: callers of `begin` pass none.
"""

import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.console.access.identity import Identity
from holdfast.console.problems import ProblemError
from holdfast.files.private import FILE_MODE, FOLDER_MODE
from holdfast.model.clock import Clock
from holdfast.model.time import DAY_US, datetime_of

KEPT_DAYS: Final = 90
_SUFFIX: Final = ".jsonl"


class Audit:
    """The audit files of a folder, which is made with the first entry."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder: Final = folder
        self._clock: Final = clock

    def begin(
        self, who: Identity, address: str, what: str, target: str, detail: Mapping[str, object] | None = None
    ) -> str:
        """The id of the entry. Survives: a power loss. ProblemError (503) if it cannot be written."""
        entry = {
            "id": secrets.token_hex(8),
            "at_us": self._clock.wall_us(),
            "name": who.name,
            "kind": who.kind,
            "role": who.role,
            "address": address,
            "what": what,
            "target": target,
            "detail": dict(detail or {}),
        }
        try:
            self._append(entry)
        except OSError as error:
            detail_text = f"the audit file cannot be written ({error.strerror}), so nothing was changed"
            raise ProblemError(503, detail_text) from error
        return str(entry["id"])

    def end(self, id_: str, outcome: str) -> None:
        """How it ended. OSError if that cannot be written: the change is made already."""
        self._append({"id": id_, "at_us": self._clock.wall_us(), "outcome": outcome})

    def read(self, limit: int, before: tuple[int, str] | None = None) -> list[dict[str, Any]]:
        """The newest entries first, those behind `before` (time and id of the last one shown)."""
        found: list[dict[str, Any]] = []
        for entry in self._newest_first():
            if before is None or (entry["at_us"], entry["id"]) < before:
                found.append(entry)
                if len(found) == limit:
                    break
        return found

    def remove_old(self) -> None:
        """Remove files of days that are not kept any more."""
        oldest = f"{datetime_of(self._clock.wall_us() - KEPT_DAYS * DAY_US):%Y-%m-%d}"
        for path in self._files():
            if path.stem < oldest:
                path.unlink(missing_ok=True)

    def _append(self, entry: Mapping[str, object]) -> None:
        self._folder.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
        path = self._folder / f"{datetime_of(self._clock.wall_us()):%Y-%m-%d}{_SUFFIX}"
        line = msgspec.json.encode(entry) + b"\n"
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                line = b"\n" + line  # behind what a power loss or a full disk has torn
            # A disk that becomes full takes a part, and refuses the rest.
            while line:
                line = line[os.write(descriptor, line) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _files(self) -> list[Path]:
        try:
            return sorted(path for path in self._folder.iterdir() if path.suffix == _SUFFIX)
        except FileNotFoundError:
            return []

    def _newest_first(self) -> Iterator[dict[str, Any]]:
        outcomes: dict[str, str] = {}
        for path in reversed(self._files()):
            entries: list[dict[str, Any]] = []
            for line in path.read_bytes().splitlines():
                try:
                    entry = msgspec.json.decode(line, type=dict[str, Any])
                except msgspec.MsgspecError:
                    continue  # torn by a power loss or a full disk
                if "outcome" in entry:
                    outcomes[entry["id"]] = entry["outcome"]
                else:
                    entries.append(entry)
            for entry in sorted(entries, key=lambda one: (one["at_us"], one["id"]), reverse=True):
                yield {**entry, "outcome": outcomes.get(entry["id"])}
