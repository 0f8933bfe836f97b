"""The ledger of a stream's batches: it detects a repeated batch that is not the same.

    <ledger>/<query id>/<batch>/<partition>      how many rows, and their digest
    <ledger>/<query id>/<batch>/partitions       how many partitions, of a batch that is done

The broker takes a number once. Rows are taken once only if each number stands for the same row each time: the same rows
in the same partitions. A plan that was changed between a crash and the next start, or one that depends on the hour or
on chance, breaks that unseen: so it is checked.

1. A partition is noted before its first row leaves.
2. What was noted is there until a later batch is done.
3. A partition that differs from what was noted is not published, nor is one that a batch which was done did not have.
   One that is missing is found when the batch ends; one too many in a batch that was cut short, too, and it may have
   been published: Spark does not tell a task how many there are.
"""

import hashlib
import shutil
from pathlib import Path
from typing import Any, Final

from holdfast.files.replacement import replace_file
from holdfast.model.errors import PermanentError

#: Batches that stay: the last one may be written again although it was done, if Spark died before it noted that.
_KEPT: Final = 2
_PARTITIONS: Final = "partitions"
_CHANGED: Final = (
    "the query has changed, or depends on time or chance. Start it as it was; or remove {folder} to go on, and have "
    "rows of this batch lost or repeated"
)


def digest_rows(packed: Any) -> str:
    """A digest of an array of binary values, with the length of each."""
    summed = hashlib.blake2b(digest_size=16)
    for value in packed:
        buffer = value.as_buffer()
        summed.update(buffer.size.to_bytes(8, "big"))
        summed.update(buffer)
    return summed.hexdigest()


class Ledger:
    """The ledger of one query, in a folder that all its workers reach."""

    def __init__(self, folder: str, query_id: str) -> None:
        self._folder: Final = Path(folder) / query_id

    def enter(self, batch: int, partition: int, packed: Any) -> None:
        """Note a partition. PermanentError if it was noted with other rows."""
        folder = self._folder / str(batch)
        done = folder / _PARTITIONS
        if done.exists() and partition >= (before := int(done.read_text(encoding="ascii"))):
            raise PermanentError(
                f"batch {batch} had {before} partitions when it was first written, and now has a partition "
                f"{partition}: {_CHANGED.format(folder=folder)}"
            )
        file = folder / str(partition)
        entry = f"{len(packed)} {digest_rows(packed)}\n"
        try:
            noted = file.read_text(encoding="ascii")
        except FileNotFoundError:
            self._write(file, entry)
            return
        if noted != entry:
            raise PermanentError(
                f"partition {partition} of batch {batch} had {noted.split()[0]} rows when it was first written, and "
                f"now has {len(packed)}, or others: {_CHANGED.format(folder=folder)}"
            )

    def leave(self, batch: int, partitions: int) -> None:
        """A batch is done. PermanentError if it had been begun with more partitions."""
        folder = self._folder / str(batch)
        begun = [int(file.name) for file in folder.glob("*") if file.name.isdigit()] if folder.is_dir() else []
        if begun and max(begun) >= partitions:
            raise PermanentError(
                f"batch {batch} was begun with {max(begun) + 1} partitions or more, and ended with {partitions}: rows "
                f"of it may have been published twice. Remove {folder} to go on"
            )
        if begun:
            self._write(folder / _PARTITIONS, f"{partitions}\n")
        for other in self._folder.iterdir() if self._folder.is_dir() else ():
            if other.name.isdigit() and int(other.name) <= batch - _KEPT:
                shutil.rmtree(other, ignore_errors=True)

    def _write(self, file: Path, entry: str) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, entry.encode())
