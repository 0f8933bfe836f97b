"""History from a broker's data folder on the same machine, whether the broker runs or not."""

from pathlib import Path

from holdfast.history.reader import HistoryReader
from holdfast.model.errors import PermanentError, SettingsError
from holdfast.pipeline.reader_source import ReaderSource


class PathSource(ReaderSource):
    """A RocksDB secondary of its own."""

    def __init__(self, path: str) -> None:
        try:
            super().__init__(HistoryReader.open(Path(path)))
        except PermanentError as wrong:
            raise SettingsError(f"option path: {wrong}") from wrong
