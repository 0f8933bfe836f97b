"""A bystander: one publisher and one subscriber at a steady pace, who have nothing to do with the trouble.

Runs in a separate process, so that the load that others make does not delay it. It goes on until its stdin is
closed, and then prints when each message was due and how long after that it came.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time

from bench.brokers.clients import Client
from bench.brokers.crowd import Crowd
from bench.brokers.packets import PUBACK, Shape, sent_ns
from bench.checkout import ROOT

RATE = 200
_VERSION = 5
_TOPIC = "b/bystander"
_SHAPE = Shape(_VERSION, qos=1)
_IDS = 60_000
#: What is still on its way at the end gets so long.
_REST_S = 5.0


class _Watcher(Client):
    """Notes when each message was due, and how late it came."""

    def __init__(self, crowd: Crowd) -> None:
        super().__init__(crowd.poll, crowd.port, crowd.version)
        self.samples: list[tuple[int, int]] = []

    def on_messages(self, data: bytearray, first: int, body: int, end: int, step: int, count: int) -> None:  # noqa: ARG002
        ident = body + 2 + (data[body] << 8 | data[body + 1])
        self.answer(PUBACK, data[ident:end:step], data[ident + 1 : end : step])
        now_ns = time.monotonic_ns()
        for at in range(ident + 3, end, step):
            due_ns = sent_ns(data, at)
            self.samples.append((due_ns, now_ns - due_ns))


class _Pacer(Client):
    """Is acknowledged, and that is all."""

    def on_acknowledgements(self, first: int, high: bytearray, low: bytearray) -> None:
        """Nothing waits for it."""


def stand_by(port: int) -> list[tuple[int, int]]:
    """Publish and watch until stdin ends; when each message was due and how late it came, in ns."""
    crowd = Crowd([port], _VERSION)
    (watcher,) = crowd.open(lambda _place: _Watcher(crowd), ["bystander-watches"])
    crowd.subscribe([watcher], [[_TOPIC]], 1)
    (pacer,) = crowd.open(lambda _place: _Pacer(crowd.poll, port, _VERSION), ["bystander-publishes"])
    print("ready", flush=True)
    distance_ns = 1_000_000_000 // RATE
    due_ns = time.monotonic_ns()
    number = 0
    while True:
        while time.monotonic_ns() >= due_ns:
            pacer.send(_SHAPE.publish(_TOPIC, number % _IDS + 1, 0, number & 0xFFFF, due_ns))
            number += 1
            due_ns += distance_ns
        left_s = max(0.0, (due_ns - time.monotonic_ns()) / 1e9)
        readable, _, _ = select.select([crowd.poll, sys.stdin], [], [], left_s)
        if sys.stdin in readable:
            break
        crowd.step(0.0)
    crowd.until(lambda: len(watcher.samples) == number, what="the bystander's messages", limit_s=_REST_S)
    return watcher.samples


class Bystander:
    """The process, from outside."""

    def __init__(self, port: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.stress.bystander", str(port)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            raise SystemExit("the bystander did not come in")

    def leave(self) -> list[tuple[int, int]]:
        """Ends; when each message was due and how late it came, in ns."""
        said, _nothing = self._process.communicate()
        if self._process.returncode:
            raise SystemExit("the bystander lost messages, or its connection")
        return [(due_ns, late_ns) for due_ns, late_ns in json.loads(said)]

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


if __name__ == "__main__":
    print(json.dumps(stand_by(int(sys.argv[1]))))
