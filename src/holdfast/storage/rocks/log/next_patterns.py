"""Patterns that the next generation of a zone begins with, learnt from all of history by a job beside the broker.

    <data folder>/patterns.json    {"version": 1, "zones": {"default": ["fleet/+/engine/temp", …]}}

The job that has learnt them writes the file. The broker looks at it once a second, begins a new generation of each zone
whose patterns are new, and from then on begins every generation of the zone with them, until the file says something
else.

1. A generation that is there is never changed. Its record says which patterns it began with, so patterns that the open
   one has already begin nothing.
2. The file is replaced as a whole. One that is not right in every part is not used at all, is said to be wrong, and
   what the broker has learnt itself goes on.
3. What a file that is gone or wrong had given stays with the generations that have it.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import structlog

from holdfast.files.replacement import replace_json
from holdfast.model.errors import PermanentError, TransientError
from holdfast.topics.learned import MAX_LEVELS, MAX_TOPIC_BYTES
from holdfast.topics.learned_ids import fingerprint
from holdfast.topics.learned_trie import is_varying
from holdfast.topics.names import SEPARATOR

_log = structlog.get_logger()

FILE_NAME: Final = "patterns.json"
#: Never change: in the file.
VERSION: Final = 1
#: Of a zone: half of the streams that a generation may have, so that there is room to learn.
MAX_PATTERNS: Final = 500
#: A larger file is not one of ours.
_MAX_FILE_BYTES: Final = 16 << 20

Patterns = tuple[bytes, ...]


def mark_of(patterns: Sequence[bytes]) -> str:
    """A short text that differs when the patterns do; empty if there are none. Never change: in generations."""
    return fingerprint(b"\n".join(patterns)).hex() if patterns else ""


def check_pattern(pattern: str) -> None:
    """PermanentError says why no generation can begin with it."""
    wrong = _complaint(pattern)
    if wrong:
        raise PermanentError(
            f"pattern {pattern!r}: {wrong}; right would be a topic with + in place of each level that varies"
        )


def _complaint(pattern: str) -> str:
    try:
        raw = pattern.encode()
    except UnicodeEncodeError:
        return "it is not UTF-8"
    levels = raw.split(SEPARATOR)
    if not raw or b"\0" in raw:
        return "it is empty, or has U+0000 in it"
    if len(raw) > MAX_TOPIC_BYTES or len(levels) > MAX_LEVELS:
        return f"it is longer than {MAX_TOPIC_BYTES} bytes or {MAX_LEVELS} levels"
    for depth, level in enumerate(levels):
        if b"#" in level or (b"+" in level and not is_varying(level, depth)):
            return f"level {depth + 1} is {level.decode()!r}"
    return ""


def patterns_of(content: Any) -> dict[str, Patterns]:
    """The patterns of each zone, from the content of a file; PermanentError says what is wrong with it."""
    if not isinstance(content, dict) or content.get("version") != VERSION:
        found = content.get("version") if isinstance(content, dict) else None
        raise PermanentError(f"its version is {found!r}, and this Holdfast knows {VERSION}")
    zones = content.get("zones")
    if not isinstance(zones, dict) or not all(isinstance(listed, list) for listed in zones.values()):
        raise PermanentError('"zones" is missing, or has no list of patterns for each zone')
    return {zone: _checked(zone, listed) for zone, listed in zones.items()}


def _checked(zone: str, listed: list[Any]) -> Patterns:
    if len(listed) > MAX_PATTERNS:
        raise PermanentError(f"zone {zone!r} has {len(listed)} patterns, and may have {MAX_PATTERNS}")
    for pattern in listed:
        if not isinstance(pattern, str):
            raise PermanentError(f"zone {zone!r}: {pattern!r} is no text")
        check_pattern(pattern)
    if len(set(listed)) < len(listed):
        raise PermanentError(f"zone {zone!r} has a pattern twice")
    return tuple(pattern.encode() for pattern in listed)


def read_patterns(folder: Path) -> dict[str, Patterns]:
    """By zone; nothing if there is no file. PermanentError says what is wrong with it."""
    path = folder / FILE_NAME
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise PermanentError(f"{path} cannot be read: {error.strerror}") from error
    try:
        if len(raw) > _MAX_FILE_BYTES:
            raise PermanentError(f"it is larger than {_MAX_FILE_BYTES} bytes")
        return patterns_of(json.loads(raw))
    except (ValueError, RecursionError) as error:
        raise PermanentError(f"{path} is no JSON: {error}") from error
    except PermanentError as error:
        raise PermanentError(f"{path}: {error}") from error


def write_patterns(folder: Path, zones: Mapping[str, Sequence[str]]) -> None:
    """Let each zone begin its next generation with these; what was said before does not hold any more.

    Survives: a power loss, with the old file or the new one.
    """
    content = {"version": VERSION, "zones": {zone: list(zones[zone]) for zone in sorted(zones)}}
    patterns_of(content)
    path = folder / FILE_NAME
    try:
        replace_json(path, content, mode=0o644)  # the broker may be another user
    except OSError as error:
        raise TransientError(f"{path} cannot be written: {error.strerror}") from error


class NextPatterns:
    """The file as the broker sees it: read again when it has changed, and a wrong one is told of once."""

    def __init__(self, folder: Path) -> None:
        self._folder: Final = folder
        self._seen: tuple[int, int, int] | None = None
        self._zones: dict[str, Patterns] = {}

    def of(self, zone: str) -> Patterns:
        """What the next generation of a zone is to begin with; nothing if it was given nothing."""
        self._look()
        return self._zones.get(zone, ())

    def _look(self) -> None:
        try:
            found = os.stat(self._folder / FILE_NAME)
            seen = (found.st_ino, found.st_mtime_ns, found.st_size)
        except OSError:
            self._seen, self._zones = None, {}
            return
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self._zones = read_patterns(self._folder)
        except PermanentError as error:
            self._zones = {}
            _log.warning("patterns cannot be used; what was learnt here goes on", why=str(error))
