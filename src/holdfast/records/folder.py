"""The record that makes a folder a data folder of Holdfast, and says which format it has as a whole.

     0  version    u8    1
     1  format     u16   of the whole folder: raised when an older Holdfast must not open it
     3  created    i64   µs
    11  creator    text  the version of Holdfast that made it

It is the first record written and the first one read: an older Holdfast stops here, before it misreads the rest.
"""

from typing import Final

from holdfast.model.errors import PermanentError
from holdfast.records.fields import RecordReader, i64, text, u8, u16

#: Never change.
VERSION: Final = 1
#: The format that this Holdfast writes, and the oldest that it reads. 2: QoS 2 records of sessions lie in slots.
FORMAT: Final = 2
OLDEST_FORMAT: Final = 1


class NewerFormatError(PermanentError):
    """Another Holdfast wrote the folder: nothing is damaged, and this one must not touch it."""


class DataFolder:
    """What a data folder says of itself."""

    def __init__(self, format_version: int, created_us: int, creator: str) -> None:
        self.format_version: Final = format_version
        self.created_us: Final = created_us
        self.creator: Final = creator


def encode_folder(folder: DataFolder) -> bytes:
    return b"".join((u8(VERSION), u16(folder.format_version), i64(folder.created_us), text(folder.creator)))


def decode_folder(value: bytes) -> DataFolder:
    """NewerFormatError if it is of a format that this Holdfast does not read, PermanentError if it is damaged."""
    if value and value[0] != VERSION:
        raise _of_another(f"the record of the data folder has version {value[0]}, this Holdfast reads {VERSION}")
    fields = RecordReader(value, "the record of the data folder", VERSION)
    format_version = fields.u16("the format")
    if not OLDEST_FORMAT <= format_version <= FORMAT:
        raise _of_another(
            f"the data folder has format {format_version}, this Holdfast reads {OLDEST_FORMAT} to {FORMAT}"
        )
    folder = DataFolder(format_version, fields.i64("the time"), fields.text("the creator"))
    fields.end()
    return folder


def _of_another(found: str) -> NewerFormatError:
    return NewerFormatError(f"{found}: open it with the version of Holdfast that wrote it, or with a later one")
