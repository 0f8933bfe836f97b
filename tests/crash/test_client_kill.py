"""A client with a state file is killed with -9 at random points: each QoS 2 message arrives once, in order.

HOLDFAST_CLIENT_KILLS says how often, for a run by hand.
"""

import asyncio
import math
import os
import random
import sys
from pathlib import Path

import pytest

from holdfast.client import Client, ConnectionOptions
from tests.crash.broker_process import BrokerProcess
from tests.crash.client_publisher import TOPIC

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("HOLDFAST_CLIENT_KILLS", "4"))
#: How often the broker is killed together with the client.
BROKER_KILLS = 0.25
DEADLINE_S = 60.0


class Subscriber:
    """Notes what arrives."""

    def __init__(self, port: int) -> None:
        self.numbers: list[int] = []
        self.subscribed = asyncio.Event()
        self._arrived = asyncio.Event()
        self._options = ConnectionOptions(
            port=port,
            client_id="subscriber",
            clean_start=False,
            session_expiry_s=3600,
            retry_for_s=math.inf,
            longest_pause_s=0.1,
        )

    async def run(self) -> None:
        async with Client(self._options) as client:
            await client.subscribe(TOPIC, 2)
            self.subscribed.set()
            while True:
                message = await client.receive()
                self.numbers.append(int(message.payload))
                client.acknowledge(message)
                self._arrived.set()

    async def reaches(self, count: int) -> None:
        while len(self.numbers) < count:
            self._arrived.clear()
            await self._arrived.wait()


async def start(port: int, state: Path, shell: str, *more: str) -> asyncio.subprocess.Process:
    command = [sys.executable, "-m", "tests.crash.client_publisher", str(port), str(state), shell, *more]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(["src", "."])}
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, env=environment)
    assert process.stdout is not None
    assert await process.stdout.readline() == b"connected\n"
    return process


@pytest.mark.parametrize("shell", ["asyncio", "blocking"])
def test_each_message_of_a_killed_publisher_arrives_once(tmp_path: Path, shell: str) -> None:
    dice = random.Random(7 if KILLS == 4 else None)
    state = tmp_path / "publisher.state"

    async def run() -> tuple[list[int], int]:
        broker = BrokerProcess(tmp_path / "data", tmp_path / "broker.log")
        await broker.start()
        subscriber = Subscriber(broker.port)
        receiving = asyncio.create_task(subscriber.run())
        try:
            async with asyncio.timeout(DEADLINE_S + KILLS * 5):
                await subscriber.subscribed.wait()
                for _kill in range(KILLS):
                    process = await start(broker.port, state, shell)
                    await asyncio.sleep(dice.random() * 0.3)
                    process.kill()
                    if dice.random() < BROKER_KILLS:
                        await broker.kill()
                        await broker.start()
                    await process.wait()
                process = await start(broker.port, state, shell, "50")
                assert process.stdout is not None
                last = int(await process.stdout.readline())
                assert await process.wait() == 0
                await subscriber.reaches(last)
                await asyncio.sleep(0.3)  # what comes twice may come late
        finally:
            receiving.cancel()
            await asyncio.wait([receiving])
            await broker.kill(dead_or_alive=True)
        return subscriber.numbers, last

    numbers, last = asyncio.run(run())
    assert last > 50
    assert numbers == list(range(1, last + 1))
