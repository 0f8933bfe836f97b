"""A process of a job that does what a test says."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence

from holdfast.console.jobs.jobs import JobEnd


class FakeJob:
    """Runs until it is interrupted, or until the test ends it."""

    def __init__(self) -> None:
        self.arguments: list[list[str]] = []
        self.environments: list[dict[str, str]] = []
        self.began = asyncio.Event()
        self.end: asyncio.Future[JobEnd] | None = None
        #: What it says when it is interrupted.
        self.last: dict[str, object] | None = None
        self._tell: Callable[[bytes], None] = lambda _line: None

    async def run(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        tell: Callable[[bytes], None],
        stop: asyncio.Event,
    ) -> JobEnd:
        self.arguments.append(list(arguments))
        self.environments.append(dict(environment))
        self._tell = tell
        self.end = asyncio.get_running_loop().create_future()
        self.began.set()
        end = self.end
        stopping = asyncio.create_task(stop.wait())

        def interrupt(_task: object) -> None:
            if not end.done():
                end.set_result(JobEnd(130, ""))

        stopping.add_done_callback(interrupt)
        status, said = await end
        stopping.cancel()
        if not stop.is_set():
            return JobEnd(status, said)
        if self.last is not None:
            self.tell(**self.last)
        return JobEnd(130, "")

    def tell(self, **progress: object) -> None:
        self._tell(
            json.dumps({"messages": 0, "bytes": 0, "at_us": None, "share": None, "place": None} | progress).encode()
        )

    def finish(self, status: int = 0, said: str = "") -> None:
        assert self.end is not None
        self.end.set_result(JobEnd(status, said))
