"""A broker that has seen a bit of everything: publishers, offline sessions, a group, retained messages, drops."""

import asyncio
import json
from pathlib import Path

from holdfast.client.asyncio_client import Client
from holdfast.client.options import ConnectionOptions
from tests.spark.publishers import Broker, Sent

#: Presses have a zone of their own.
STORAGE = """
shards = 2
[zones.press]
filter = "press/#"
"""
#: Of which a third matches `plant/+/temp`, and each kind has enough devices for a pattern.
MESSAGES = 900
OFFLINE = "archive"
GROUP = "$share/workers/press/#"


class Plant(Broker):
    """`archive` was there before everything, and is owed the temperatures; `workers` are owed the presses."""

    def __init__(self, folder: Path, layout: str = "paged") -> None:
        super().__init__(folder, f'layout = "{layout}"{STORAGE}')

    def fill(self) -> None:
        self.subscribe(OFFLINE, "plant/+/temp")
        self.subscribe("worker-1", GROUP)
        self.publish(self._message(number) for number in range(MESSAGES))

    def subscribe(self, client_id: str, text: str, qos: int = 1) -> None:
        """Come with a session that stays, subscribe, and leave."""

        async def visit() -> None:
            target = ConnectionOptions(
                port=self.process.ports["tcp"], client_id=client_id, clean_start=False, session_expiry_s=3600
            )
            async with Client(target) as client:
                await client.subscribe(text, qos)

        asyncio.run(visit())

    @staticmethod
    def _message(number: int) -> Sent:
        kind = ("plant", "plant", "press")[number % 3]
        what = "temp" if number % 3 == 0 else "flow"
        return Sent(
            f"{kind}/{number % 60}/{what}",
            json.dumps({"value": number / 10, "note": "x" * (number % 50)}).encode(),
            client_id=f"device-{number // 90}",
            retain=number % 30 == 0,
            user_properties=(("unit", "C"),) if number % 30 == 0 else (),
        )
