"""Log lines about clients, rate-limited: no client can fill the log, nor hide in it what others do.

    publish denied  client=c7 topic=a why=…        the first lines of a window, `BURST` at most
    publish denied  client=c7 topic=b why=…
    publish denied  client=c7 topic=c why=…
    publish denied  client=c7 more=4812 in_s=10    the rest of it, as one line, when the window ends

Rules:
1. In one window, a client (or address) has at most `BURST` lines of one event and reason, and one that counts the rest.
2. All clients together have at most `MAX_LINES` lines of one event. What comes beyond is one line without a client.
3. Only clients that have their own line are remembered, and until the end of the window: memory is bounded by 2.
4. Texts of clients are cut to `MAX_TEXT_BYTES`.

Whatever is an event as well (`exchange/drops.py`) is counted there without a gap.
"""

from typing import Final

import structlog

from holdfast.broker.deadlines import Deadlines
from holdfast.records.events import cut

_log = structlog.get_logger()

WINDOW_S: Final = 10
BURST: Final = 10
MAX_LINES: Final = 100
#: Of one text in a line; topics and client ids may have 64 KiB.
MAX_TEXT_BYTES: Final = 512


class _Lines:
    """Lines of one client, event and reason in the present window."""

    def __init__(self, event: str, subject: dict[str, str]) -> None:
        self.event: Final = event
        self.subject: Final = subject
        self.written = 0
        self.left_out = 0


class ClientLog:
    """Writes log lines about clients."""

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines: Final = deadlines
        self._lines: Final[dict[tuple[str, str, object], _Lines]] = {}
        #: Lines written in this window, and those left out of clients without their own line, by event.
        self._totals: Final[dict[str, _Lines]] = {}

    def info(self, event: str, per: str, *, reason: object = None, **fields: str) -> None:
        """Write a line; `per` is the field that it is limited by: `client`, or `address` if no client id is certain."""
        if self._may_write(event, per, fields[per], reason):
            _log.info(event, **_cut(fields))

    def error(self, event: str, per: str, *, error: BaseException | None = None, **fields: str) -> None:
        """The same for what is no fault of the client; with the traceback of `error`."""
        if self._may_write(event, per, fields[per], type(error)):
            _log.error(event, **_cut(fields), **({} if error is None else {"exc_info": error}))

    def close_window(self) -> None:
        """Say how many lines were left out, and begin again."""
        for lines in [*self._lines.values(), *self._totals.values()]:
            if lines.left_out:
                _log.info(lines.event, **lines.subject, more=lines.left_out, in_s=WINDOW_S)
        self._lines.clear()
        self._totals.clear()

    def _may_write(self, event: str, per: str, subject: str, reason: object) -> bool:
        if not self._totals:
            self._deadlines.after(WINDOW_S * 1_000_000, self.close_window)
        total = self._totals.get(event)
        if total is None:
            total = self._totals[event] = _Lines(event, {})
        key = (event, subject, reason)
        lines = self._lines.get(key)
        if lines is None and total.written < MAX_LINES:
            lines = self._lines[key] = _Lines(event, _cut({per: subject}))
        if lines is None:
            total.left_out += 1
            return False
        if lines.written == BURST or total.written >= MAX_LINES:
            lines.left_out += 1
            return False
        lines.written += 1
        total.written += 1
        return True


def _cut(fields: dict[str, str]) -> dict[str, str]:
    return {key: cut(value, MAX_TEXT_BYTES) for key, value in fields.items()}
