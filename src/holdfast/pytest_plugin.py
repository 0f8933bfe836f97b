"""The pytest fixture `holdfast_broker`: a broker for the length of a test, on its own thread."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from holdfast import testing


@pytest.fixture
def holdfast_broker() -> Iterator[str]:
    """The URL of a broker that runs for the length of the test, whether the test is asynchronous or not."""
    answer: Future[str] = Future()
    stop = threading.Event()

    async def run() -> None:
        async with testing.broker() as url:
            answer.set_result(url)
            await asyncio.to_thread(stop.wait)

    def main() -> None:
        try:
            asyncio.run(run())
        except BaseException as error:
            if not answer.done():
                answer.set_exception(error)

    thread = threading.Thread(target=main, name="holdfast-broker")
    thread.start()
    try:
        yield answer.result(timeout=30)
    finally:
        stop.set()
        thread.join()
