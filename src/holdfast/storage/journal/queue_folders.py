"""The folder of a client's queue: `queues/ab/cd/ef/gh/<rest>`.

A queue's id is a hash of the client id (24 bytes, 32 letters of base64url), so that any client id is possible and
folders fill evenly. `layout.json` has the lengths of the fragments. They can be changed; meanwhile a
queue may be in the place of either layout.

1. A folder belongs to a queue if the fragments of its path make up a whole id, with any lengths.
2. `layout.json` is synced before a queue is made or moved according to it.

`relayout` moves all queues to another layout:

3. `layout.json` names both layouts before the first queue is moved: until all are moved, a queue may be in either.
4. A queue is moved by one rename. After an interruption, the same command continues.
5. `layout.json` names one layout again when the last queue has been moved and the folders are synced.
"""

import json
import os
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from holdfast.files.folders import make_folders, prune_above, sync_folders
from holdfast.files.replacement import read_json, replace_file
from holdfast.model.errors import PermanentError, SettingsError

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


class QueueFolders:
    """The tree of folders below a journal's root."""

    def __init__(self, root: Path, fragments: tuple[int, ...], former: tuple[int, ...] | None) -> None:
        self.root: Final = root
        self.queues: Final = root / QUEUES_NAME
        #: The layout of new queues, and that of queues that are not moved yet.
        self.fragments = fragments
        self.former = former

    @classmethod
    def load(cls, root: Path, wanted: tuple[int, ...] | None = None) -> "QueueFolders":
        """The layout of `layout.json`; without it, the wanted one. SettingsError if both are given and differ."""
        try:
            stored = read_json(root / LAYOUT_NAME, _VERSION)
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
        replace_file(self.root / LAYOUT_NAME, json.dumps(stored).encode() + b"\n")

    def find(self, client_id: str) -> Path:
        """The folder of a queue, existing or not."""
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
        """Ids and folders of all queues of both layouts. Queues that are made or removed meanwhile may be missing."""
        yield from _below(self.queues, "")


def _below(folder: Path, prefix: str) -> Iterator[tuple[str, Path]]:
    with suppress(FileNotFoundError, NotADirectoryError):
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            name = prefix + entry.name
            if len(name) == _ID_LETTERS:
                yield name, folder / entry.name
            elif len(name) < _ID_LETTERS:
                yield from _below(folder / entry.name, name)


def relayout(root: Path, fragments: tuple[int, ...], told: Callable[[int], None]) -> int:
    """Requires: the lock of the root, and no commit files. Returns the number of moved queues; calls `told` after each.

    Survives: a power loss, at any step.
    """
    check_fragments(fragments)
    folders = QueueFolders.load(root)
    if folders.former is not None and fragments != folders.fragments:
        wanted = ",".join(map(str, folders.fragments))
        raise SettingsError(f"queues are being moved to folders of {wanted} letters; finish that first")
    if folders.former is None:
        if fragments == folders.fragments:
            return 0
        folders.fragments, folders.former = fragments, folders.fragments
        folders.save()
    moved = 0
    changed: set[Path] = set()
    for name, folder in list(folders.each()):
        place = folders.place(name, fragments)
        if folder == place:
            continue
        changed.update([place.parent, *make_folders(place.parent)])
        folder.replace(place)
        changed.add(prune_above(folder, folders.queues))
        moved += 1
        told(moved)
    sync_folders(changed, root)
    folders.former = None
    folders.save()
    return moved
