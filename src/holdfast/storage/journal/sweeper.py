"""Goes over all queues, a part at a time: removes expired messages, and closes the files of idle queues.

Of a queue that is not open, only the last state is read, which has the time of its next expiry.
"""

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

from holdfast.model.errors import PermanentError
from holdfast.storage.journal.journal import Journal
from holdfast.storage.journal.queue.state_file import load_state_file

#: Queues per sweep.
_PART: Final = 256


class Sweeper:
    """Requires: the journal's thread."""

    def __init__(self, journal: Journal) -> None:
        self._journal: Final = journal
        self._walk: Iterator[tuple[str, Path]] = iter(())

    def sweep(self, now_us: int) -> int:
        """Returns how many messages were removed."""
        self._journal.close_idle()
        part = list(islice(self._walk, _PART))
        if not part:
            self._walk = self._journal.folders.each()
            part = list(islice(self._walk, _PART))
        went = 0
        for _name, folder in part:
            # A damaged queue is set aside when it is used.
            with suppress(PermanentError, FileNotFoundError):
                loaded = load_state_file(folder)
                if 0 < next(loaded.states).expires_us <= now_us:
                    went += self._journal.expire(loaded.client_id)
        return went
