"""The publisher and the subscriber of `holdfast demo`. They connect again until they are cancelled."""

import asyncio
import math
from collections import deque
from typing import Final

from holdfast.client.asyncio_client import Client
from holdfast.client.options import ConnectionOptions

#: Unacknowledged messages of the publisher, at most.
_WINDOW: Final = 100
#: Seconds between two attempts to connect, and between two bursts.
_RETRY_S: Final = 0.1
_BURST_S: Final = 0.02


class Flow:
    """The messages of one QoS, numbered from 1."""

    def __init__(self, qos: int) -> None:
        self.qos: Final = qos
        self.topic: Final = f"demo/qos{qos}"
        self.sent = 0
        self.acknowledged: Final[set[int]] = set()
        self.delivered: Final[set[int]] = set()
        self.duplicates = 0

    def missing(self) -> int:
        """Acknowledged and not delivered yet; at the end, lost."""
        return len(self.acknowledged - self.delivered)

    def arrives(self, number: int) -> None:
        self.duplicates += number in self.delivered
        self.delivered.add(number)


class Publisher:
    """Publishes about `rate` messages a second, half of them with each QoS, as far as the window allows."""

    def __init__(self, port: int, flows: list[Flow]) -> None:
        self._options: Final = _options("demo-publisher", port)
        self._flows: Final = flows
        self._settled = 0
        #: Published and not acknowledged, in their order.
        self.in_flight: Final[deque[tuple[Flow, int]]] = deque()
        #: 0 publishes nothing.
        self.rate = 0.0

    async def run(self) -> None:
        due = 0.0
        async with Client(self._options) as client:
            while True:
                await asyncio.sleep(_BURST_S)
                due = min(due + self.rate * _BURST_S, _WINDOW) if self.rate else 0.0
                while due >= 1 and client.connected and client.unacknowledged < _WINDOW:
                    due -= 1
                    flow = min(self._flows, key=lambda flow: flow.sent)
                    flow.sent += 1
                    self.in_flight.append((flow, flow.sent))
                    await client.publish(flow.topic, b"%d" % flow.sent, flow.qos)
                self._note(client.settled)

    def _note(self, settled: int) -> None:
        while self._settled < settled:
            flow, number = self.in_flight.popleft()
            flow.acknowledged.add(number)
            self._settled += 1


class Subscriber:
    """Receives every message, those of QoS 2 once."""

    def __init__(self, port: int, flows: list[Flow]) -> None:
        self._options: Final = _options("demo-subscriber", port)
        self._flows: Final = {flow.topic: flow for flow in flows}
        self.subscribed: Final = asyncio.Event()

    async def run(self) -> None:
        async with Client(self._options) as client:
            await client.subscribe("demo/#", 2)
            self.subscribed.set()
            while True:
                message = await client.receive()
                self._flows[message.topic].arrives(int(message.payload))
                client.acknowledge(message)


def _options(client_id: str, port: int) -> ConnectionOptions:
    return ConnectionOptions(
        port=port,
        client_id=client_id,
        clean_start=False,
        session_expiry_s=3600,
        keep_alive_s=0,
        max_inflight=_WINDOW,
        retry_for_s=math.inf,
        longest_pause_s=_RETRY_S,
    )
