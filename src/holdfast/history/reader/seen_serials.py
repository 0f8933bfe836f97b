"""Which messages of a part were passed on already, for a read that begins again."""

from typing import Any, Final

import numpy as np

from holdfast.history.reader.record_replay import SERIAL
from holdfast.history.reader.view import UNKNOWN, Part
from holdfast.model.errors import PermanentError


class SeenSerials:
    """The messages of a part that were passed on, so that a read that begins again skips them.

    Serials have no gaps, so one byte for each is enough: a million messages take a megabyte, in any order.
    Requires: a part that knows its serials, and batches with the column SERIAL.
    """

    def __init__(self, part: Part) -> None:
        self._part: Final = part
        self._first: Final = part.after_serial + 1
        self._seen: Final = np.zeros(max(0, part.last_serial - part.after_serial), dtype=bool)

    @staticmethod
    def can_follow(part: Part) -> bool:
        return UNKNOWN not in (part.after_serial, part.last_serial)

    def news(self, batch: Any) -> Any:
        """The rows of a batch that were not seen before."""
        places = batch.column(SERIAL).to_numpy() - self._first
        if len(places) and not 0 <= places.min() <= places.max() < len(self._seen):
            raise PermanentError(
                f"shard {self._part.shard} gave a message with a serial that is not in ({self._part.after_serial}, "
                f"{self._part.last_serial}]; run: holdfast verify"
            )
        known = self._seen[places]
        self._seen[places] = True
        return batch.filter(~known) if known.any() else batch
