"""Formats of exported and loaded files, and the columns of those that can be loaded.

This needs neither Arrow nor Spark, so that a wrong one is reported at once.
"""

from enum import StrEnum
from pathlib import Path
from typing import Final

from holdfast.model.errors import SettingsError

#: Columns that a message is made of, by the names that an export has.
COLUMNS: Final = (
    "ts",
    "topic",
    "payload",
    "client_id",
    "qos",
    "retain",
    "content_type",
    "response_topic",
    "correlation_data",
    "user_properties",
    "expires_at",
    "received_at",
    "properties",
)
NEEDED: Final = ("ts", "topic", "payload")
#: Common other names of them.
ALIASES: Final[dict[str, tuple[str, ...]]] = {
    "ts": ("tst", "time", "timestamp"),
    "payload": ("message", "value"),
    "client_id": ("clientid", "publisher"),
}
#: The publisher, where a file has none.
CLIENT_ID: Final = "load"


class FileFormat(StrEnum):
    """By the ends of names."""

    PARQUET = "parquet"
    CSV = "csv"
    JSONL = "jsonl"


_ENDS: Final = {".json": FileFormat.JSONL, **{f".{each}": each for each in FileFormat}}


def format_of(paths: list[Path]) -> FileFormat:
    """The format of files, by their names; a folder has that of its files. SettingsError if it is not clear."""
    ends = {file.suffix.lower() for path in paths for file in ([path] if path.is_file() else path.rglob("*"))}
    formats = {_ENDS[end] for end in ends if end in _ENDS}
    if len(formats) != 1:
        what = "they are of several kinds" if formats else "their names do not tell what they are"
        raise SettingsError(f"{what}; say which: --format parquet, csv or jsonl")
    return formats.pop()


def parse_columns(texts: list[str]) -> dict[str, str]:
    """Parse `ts=time`: a column and its name in the file. SettingsError if it is wrong."""
    found: dict[str, str] = {}
    for text in texts:
        column, mark, name = text.partition("=")
        if not mark or not name or column not in COLUMNS:
            raise SettingsError(f"--column {text}: give COLUMN=NAME, where COLUMN is one of {', '.join(COLUMNS)}")
        if column in found:
            raise SettingsError(f"--column {column} stands twice; give it once")
        found[column] = name
    return found
