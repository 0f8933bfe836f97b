"""The names of the column families besides those of messages, and the contract by which stores reach families."""

from collections.abc import Collection
from pathlib import Path
from typing import Final, Protocol

from rocksdict import Rdict

from holdfast.model.errors import PermanentError
from holdfast.records.folder import NewerFormatError, decode_folder
from holdfast.records.meta_keys import FOLDER_KEY

#: What a node has to know before it can read or write a message; sessions; retained messages. Never change.
META: Final = "meta"
SESSIONS: Final = "sessions"
RETAINED: Final = "retained"
#: The tables of vnodes; only a node of a cluster has it. Never change.
CLUSTER: Final = "cluster"


class ColumnFamilies(Protocol):
    """Column families by name. The engine fits by shape."""

    def family(self, name: str) -> Rdict: ...

    def families(self) -> list[str]: ...

    def create_family(self, name: str) -> None: ...

    def drop_family(self, name: str) -> None: ...


def refuse_cluster(families: Collection[str], folder: Path, what: str) -> None:
    """PermanentError if a folder is one of a cluster, for what would write there and be on one node alone."""
    if CLUSTER in families:
        raise PermanentError(
            f"{folder} belongs to a node of a cluster: {what} would be on this node alone, and all nodes have the same"
        )


def check_format(meta: Rdict, folder: Path) -> None:
    """NewerFormatError, which names the folder, if this Holdfast must not read on.

    A damaged record is left to those who need what it says, or report damage.
    """
    value = meta.get(FOLDER_KEY)
    if value is None:
        return
    try:
        decode_folder(value)
    except NewerFormatError as error:
        raise NewerFormatError(f"{folder}: {error}") from None
    except PermanentError:
        return
