"""The pytest fixture `holdfast_broker`: a broker for the length of a test, on its own thread."""

import asyncio
import threading
from collections.abc import Iterator
from queue import Queue

import pytest

from holdfast import testing


@pytest.fixture
def holdfast_broker() -> Iterator[str]:
    """The URL of a broker that runs for the length of the test, whether the test is asynchronous or not."""
    answers: Queue[str | BaseException] = Queue()
    stop = threading.Event()

    async def run() -> None:
        async with testing.broker() as url:
            answers.put(url)
            await asyncio.to_thread(stop.wait)

    def main() -> None:
        try:
            asyncio.run(run())
        except BaseException as error:
            answers.put(error)

    thread = threading.Thread(target=main, name="holdfast-broker")
    thread.start()
    try:
        answer = answers.get(timeout=30)
        if isinstance(answer, BaseException):
            raise answer
        yield answer
    finally:
        stop.set()
        thread.join()
