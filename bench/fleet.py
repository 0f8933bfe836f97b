"""A data folder with the history of a made-up fleet, written through the log as a broker does it.

    python -m bench.fleet FOLDER [--devices 100000] [--rounds 2] [--noise 300]

Every device publishes to five topics, round after round. Noise is topics of chance, and it comes first, as in a broker
that people tried out before the devices came: it decides what a broker takes the first level for.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.storage.store import Store
from holdfast.model.ids import ClientId
from holdfast.model.message import Message

SHAPES = (b"engine/temp", b"engine/oil", b"gps", b"status", b"door/front/state")
_SEED = 20_241_116
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def noise(topics: int) -> Iterator[Message]:
    """One message on each of some topics that follow nothing, two or three levels deep."""
    dice = random.Random(_SEED)
    for number in range(topics):
        levels = ["".join(dice.choices(_LETTERS, k=6)) for _level in range(1 + number % 3)]
        yield _message("/".join(levels).encode(), b"hello", "laptop")


def fleet(devices: int, rounds: int, payload_bytes: int = 20) -> Iterator[Message]:
    dice = random.Random(_SEED)
    for _round in range(rounds):
        for device in range(devices):
            name = f"dev-{device:06d}"
            for shape in SHAPES:
                yield _message(b"fleet/%b/%b" % (name.encode(), shape), dice.randbytes(payload_bytes), name)


def _message(topic: bytes, payload: bytes, client: str) -> Message:
    return Message(topic, payload, 1, ClientId(client), time.time_ns() // 1_000)


def make(folder: Path, devices: int, rounds: int, noise_topics: int) -> int:
    """How many messages it has."""
    store = Store(folder, layout="learned")  # it places messages by patterns
    try:
        store.fill(noise(noise_topics), lambda _done: None)
        store.fill(fleet(devices, rounds), lambda _done: None)
    finally:
        store.close()
    return noise_topics + devices * rounds * len(SHAPES)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.fleet", description="Make the history of a fleet.")
    parser.add_argument("folder", type=Path, help="the data folder to be made")
    parser.add_argument("--devices", type=int, default=100_000, help="default: 100000")
    parser.add_argument("--rounds", type=int, default=2, help="messages on each topic (default: 2)")
    parser.add_argument("--noise", type=int, default=0, help="topics of chance before that (default: 0)")
    wanted = parser.parse_args(arguments)
    count = make(wanted.folder, wanted.devices, wanted.rounds, wanted.noise)
    print(f"{wanted.folder}: {count:,} messages of {wanted.devices:,} devices")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
