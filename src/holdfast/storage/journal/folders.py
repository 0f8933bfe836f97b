"""Where the queue of a client lies: `queues/ab/cd/ef/gh/<rest>`.

A queue's id is made from the client id by a hash (24 bytes, 32 letters of base64url), so that any client id will do and
folders fill evenly. The lengths of the fragments are written down in `layout.json`, and can be changed
(`relayout.py`); meanwhile a queue may lie where either of the two layouts puts it.

1. A folder is a queue's if the fragments on the way to it make up a whole id, whatever their lengths.
2. `layout.json` is synced before a queue is made or moved according to it.
"""

import json
import os
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from holdfast.model.errors import PermanentError, SettingsError
from holdfast.storage.journal.files import replace_file

#: Never change.
ID_BYTES: Final = 24
_ID_LETTERS: Final = 32
_VERSION: Final = 1
LAYOUT_NAME: Final = "layout.json"
QUEUES_NAME: Final = "queues"
DEFAULT_FRAGMENTS: Final = (2, 2, 2, 2)


def queue_hash(client_id: str) -> bytes:
    return sha256(client_id.encode()).digest()[:ID_BYTES]


def queue_id(client_id: str) -> str:
    return urlsafe_b64encode(queue_hash(client_id)).decode()


def check_fragments(fragments: tuple[int, ...]) -> None:
    if any(length < 1 for length in fragments) or sum(fragments) >= _ID_LETTERS:
        told = ",".join(map(str, fragments))
        raise SettingsError(f"fragments of {told} letters: each needs at least 1, and all of them less than 32")


class Folders:
    """The tree of folders below a journal's root."""

    def __init__(self, root: Path, fragments: tuple[int, ...], former: tuple[int, ...] | None) -> None:
        self.root: Final = root
        self.queues: Final = root / QUEUES_NAME
        #: Where new queues go, and where others may lie still, while they are being moved.
        self.fragments = fragments
        self.former = former

    @classmethod
    def load(cls, root: Path, wanted: tuple[int, ...] | None = None) -> "Folders":
        """As `layout.json` says; without one, as wanted. SettingsError if both say something, and not the same."""
        try:
            stored = json.loads((root / LAYOUT_NAME).read_bytes())
            if stored["version"] != _VERSION:
                raise PermanentError(f"{root / LAYOUT_NAME} has version {stored['version']}, and 1 can be read")
            fragments = tuple(map(int, stored["fragments"]))
            former = None if stored["former"] is None else tuple(map(int, stored["former"]))
        except FileNotFoundError:
            fragments, former = wanted or DEFAULT_FRAGMENTS, None
        except (ValueError, KeyError, TypeError) as error:
            raise PermanentError(f"{root / LAYOUT_NAME} cannot be read: {error}") from error
        check_fragments(fragments)
        if wanted is not None and wanted != fragments:
            told = ",".join(map(str, wanted))
            raise SettingsError(
                f"the queues in {root} lie in folders of {','.join(map(str, fragments))} letters, not of {told}; "
                f"move them with: holdfast queue relayout journal:{root} --fragments {told}"
            )
        return cls(root, fragments, former)

    def save(self) -> None:
        """Survives: a power loss."""
        stored = {"version": _VERSION, "fragments": self.fragments, "former": self.former}
        replace_file(self.root / LAYOUT_NAME, json.dumps(stored).encode() + b"\n", sync=True)

    def find(self, client_id: str) -> Path:
        """Where the queue is, or is to be made."""
        name = queue_id(client_id)
        place = self.place(name, self.fragments)
        if self.former is not None and not place.exists():
            old = self.place(name, self.former)
            if old.exists():
                return old
        return place

    def place(self, name: str, fragments: tuple[int, ...]) -> Path:
        folder, at = self.queues, 0
        for length in fragments:
            folder /= name[at : at + length]
            at += length
        return folder / name[at:]

    def each(self) -> Iterator[tuple[str, Path]]:
        """Ids and folders of all queues, of whichever layout; those that come and go meanwhile may be left out."""
        yield from _below(self.queues, "")


def _below(folder: Path, prefix: str) -> Iterator[tuple[str, Path]]:
    with suppress(FileNotFoundError, NotADirectoryError):
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            name = prefix + entry.name
            if len(name) == _ID_LETTERS:
                yield name, folder / entry.name
            elif len(name) < _ID_LETTERS:
                yield from _below(folder / entry.name, name)
