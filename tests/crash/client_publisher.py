"""A process that publishes numbers with QoS 2 and a state file, until it is killed.

    python -m tests.crash.client_publisher PORT STATE_FILE asyncio|blocking [MORE]

It goes on behind the last number that its state file has. With MORE it ends after so many more, and prints the
last one.
"""

import asyncio
import math
import sys
from pathlib import Path

from holdfast.client import BlockingClient, Client, ConnectionOptions

TOPIC = "numbers"
_BURST = 7


async def publish(options: ConnectionOptions, state: Path, more: float) -> None:
    async with Client(options, state=state) as client:
        number = first = int(client.source_offset or 0)
        print("connected", flush=True)
        while number < first + more:
            burst = [b"%d" % (number + 1 + step) for step in range(_BURST)]
            number += _BURST
            async with asyncio.TaskGroup() as tasks:
                for payload in burst:
                    tasks.create_task(client.publish(TOPIC, payload, 2, source_offset=payload))
        await client.settle()
        print(number, flush=True)


def publish_blocking(options: ConnectionOptions, state: Path, more: float) -> None:
    with BlockingClient(options, state=state) as client:
        number = first = int(client.source_offset or 0)
        client.connect()
        print("connected", flush=True)
        while number < first + more:
            number += 1
            client.publish(TOPIC, b"%d" % number, 2, source_offset=b"%d" % number)
        client.settle()
        print(number, flush=True)


def main(port: str, state: str, shell: str, more: str = "inf") -> None:
    options = ConnectionOptions(port=int(port), client_id="publisher", max_inflight=20, retry_for_s=math.inf)
    if shell == "asyncio":
        asyncio.run(publish(options, Path(state), float(more)))
    else:
        publish_blocking(options, Path(state), float(more))


if __name__ == "__main__":
    main(*sys.argv[1:])
