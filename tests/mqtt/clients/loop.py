"""An event loop in a thread, for libraries that need one under tests that do not."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from tests.mqtt.broker_process import DEADLINE_S

Result = TypeVar("Result")


class LoopThread:
    """Runs coroutines, and waits for them."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, DEADLINE_S), self.loop).result()

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(_end_tasks(), self.loop).result(DEADLINE_S)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


async def _end_tasks() -> None:
    """What the libraries left running."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
