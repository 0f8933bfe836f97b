"""Asks the history process for pages of a lake, for replays of MQTT clients.

    replay ──ask──▶ one of AT_ONCE questions ──▶ private socket of the history process ──▶ a page
                        └── no answer: again, after a pause, for PATIENCE_S more ──▶ failed

1. The broker reads no lake itself: it needs neither Arrow nor Delta, and no credentials of a store.
2. What is asked is decided when the question goes out. An answer is a page, so that a slow client holds nothing.
3. A process that is started again and a store that is busy are waited for. A lake that is damaged, missing or of
   another broker is not: the reason is passed on at once.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import structlog

from holdfast.console.past.history_link import HistoryLink
from holdfast.console.problems import ProblemError
from holdfast.durable.lake_log import LakeCounts
from holdfast.durable.lake_page import LAKE_PATH, LakePage, LakeQuestion, decode_page
from holdfast.model.errors import PermanentError

_log = structlog.get_logger()

#: Questions at one time: an answer takes a processor, and the history process has others to answer.
AT_ONCE: Final = 4
#: Seconds after the first failure for which a question is asked again.
PATIENCE_S: Final = 30.0
#: Seconds that an answer may take. Less than the patience: a process that hangs is asked more than once.
ANSWER_S: Final = 25.0
_FIRST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 5.0
#: The status of an answer that may be another one later.
_BUSY: Final = 503


class LakeLink:
    """A `LakeSource` by shape. Requires: a running loop when it is asked, and `close` at the end."""

    def __init__(
        self,
        find: Callable[[], Awaitable[Path]],
        *,
        patience_s: float = PATIENCE_S,
        answer_s: float = ANSWER_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`find` gives the socket of the history process."""
        self.counts: Final = LakeCounts()
        self._link: Final = HistoryLink(find)
        self._patience_s: Final = patience_s
        self._answer_s: Final = answer_s
        self._clock: Final = clock
        self._slots: Final = asyncio.Semaphore(AT_ONCE)
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self._problem = ""

    def ask(
        self,
        question: Callable[[], LakeQuestion],
        answered: Callable[[LakePage], None],
        failed: Callable[[str], None],
    ) -> "LakeAsking":
        """As `LakeSource.ask`."""
        asking = LakeAsking(question, answered, failed)
        task = asking.task = asyncio.get_running_loop().create_task(self._serve(asking))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return asking

    def problem(self) -> str:
        """Why the last question got no answer; empty if it got one."""
        return self._problem

    async def close(self) -> None:
        """Ensures: nothing is asked any more."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, asking: "LakeAsking") -> None:
        ends_s = 0.0
        pause_s = _FIRST_PAUSE_S
        try:
            while True:
                try:
                    async with self._slots:
                        page = await self._get(asking.question())
                except ProblemError as error:
                    why, may_help = error.detail, error.status == _BUSY
                except PermanentError as error:
                    why, may_help = str(error), False
                else:
                    self._problem = ""
                    self.counts.pages += 1
                    asking.answered(page)
                    return
                self._note(why)
                now_s = self._clock()
                # Neither the time in which others were served counts, nor that of the answer which failed first.
                ends_s = ends_s or now_s + self._patience_s
                if not may_help or now_s >= ends_s:
                    asking.failed(why)
                    return
                await asyncio.sleep(pause_s)
                pause_s = min(_LONGEST_PAUSE_S, 2 * pause_s)
        except Exception:
            _log.exception("a question to the lake failed")
            asking.failed("the broker could not ask for it; its log says why")

    async def _get(self, question: LakeQuestion) -> LakePage:
        if not question.ranges:
            return LakePage([], 0)
        data = bytearray()
        async with self._link.ask(LAKE_PATH, question.parameters(), answer_s=self._answer_s) as answer:
            async for part in answer.parts:
                data += part
        return decode_page(bytes(data))

    def _note(self, why: str) -> None:
        self.counts.failures += 1
        if why != self._problem:
            _log.warning("the lake cannot be read", why=why)
        self._problem = why


class LakeAsking:
    """A question on its way; a `LakeReading` by shape."""

    def __init__(
        self,
        question: Callable[[], LakeQuestion],
        answered: Callable[[LakePage], None],
        failed: Callable[[str], None],
    ) -> None:
        self.question: Final = question
        self.answered: Final = answered
        self.failed: Final = failed
        self.task: asyncio.Task[None] | None = None

    def cancel(self) -> None:
        if self.task is not None and self.task is not asyncio.current_task():
            self.task.cancel()
