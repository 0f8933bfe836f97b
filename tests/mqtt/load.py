"""What a broker process costs, and many connections at once."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil  # type: ignore[import-untyped]

from holdfast.model.protocol import V5
from holdfast.wire.codec import encode
from holdfast.wire.packets import Connect, Packet, Publish
from tests.mqtt.broker_process import DEADLINE_S, RunningBroker
from tests.mqtt.raw import RawClient, round_trip

MB = 1_000_000


@dataclass(frozen=True)
class Cost:
    memory_bytes: int
    files: int


def cost_of(broker: RunningBroker) -> Cost:
    process = psutil.Process(broker.pid)
    return Cost(process.memory_info().rss, process.num_fds())


def settled(broker: RunningBroker) -> Cost:
    """The cost once the broker has served something, and no connection is left."""
    round_trip(broker.ports["tcp"])
    wait_until(lambda: _clients(broker) == 0, "the round trip's own connection is gone")
    return cost_of(broker)


def _clients(broker: RunningBroker) -> int:
    found = psutil.Process(broker.pid).net_connections("tcp")
    return sum(one.status != psutil.CONN_LISTEN for one in found)


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Wait for something that only looking can tell."""
    ends = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < ends, f"never: {what}"


def check_recovered(broker: RunningBroker, before: Cost, growth_mb: int) -> None:
    """It still serves, holds no more files than before, and has given the memory back up to `growth_mb`."""
    after = settled(broker)
    wait_until(lambda: cost_of(broker).files <= before.files, f"back to {before.files} open files")
    assert after.memory_bytes - before.memory_bytes < growth_mb * MB, f"{before} → {after}"
    assert broker.complaints() == []


def frame(packet: Packet, version: int = V5) -> bytes:
    return encode(packet, version)


def connect_frame(client_id: str, version: int = V5) -> bytes:
    return frame(Connect(version, client_id), version)


async def send_and_drop(port: int, data: bytes, *, read: bool) -> None:
    """One connection: say `data`, wait for the end or go at once."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionError:
        return
    try:
        writer.write(data)
        await writer.drain()
        if read:
            writer.write_eof()
            async with asyncio.timeout(DEADLINE_S):
                while await reader.read(65536):
                    pass
    except (ConnectionError, OSError):
        pass
    finally:
        if not read:
            writer.transport.abort()
        writer.close()


async def storm(port: int, messages: list[bytes], *, read: bool, at_once: int = 100) -> None:
    """One connection for each of `messages`, so many at a time."""
    waiting = iter(messages)

    async def work() -> None:
        for data in waiting:
            await send_and_drop(port, data, read=read)

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(work())


def sys_value(port: int, name: str) -> int:
    """A number that the broker says of itself, as of its last round."""
    with RawClient(port) as client:
        assert client.connect("asking").reason == 0
        client.subscribe(f"$SYS/broker/{name}")
        return int(client.expect(Publish).payload)
