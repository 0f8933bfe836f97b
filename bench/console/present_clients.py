"""MQTT clients that only are there, in a separate process for each broker: until its standard input ends.

python -m bench.console.present_clients <count> <port>
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from bench.brokers.crowd import AT_ONCE, Crowd, allow_open_files
from bench.checkout import ROOT
from bench.console.children import environment

_VERSION = 5


def client_name(number: int) -> str:
    return f"press-{number:06d}"


def main(count: int, port: int) -> int:
    """Each client has a subscription."""
    allow_open_files(count)
    crowd = Crowd([port], _VERSION)
    for begin in range(0, count, AT_ONCE):
        names = [client_name(number) for number in range(begin, min(count, begin + AT_ONCE))]
        crowd.subscribe(crowd.plain(names), [[f"press/{name}/#"] for name in names], 1)
    print("ready", flush=True)
    sys.stdin.read()
    return 0


@contextmanager
def present(count: int, port: int) -> Iterator[None]:
    """The process, for the length of the block."""
    command = [sys.executable, "-m", "bench.console.present_clients", str(count), str(port)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=ROOT, env=environment(), **pipes) as child:  # type: ignore[call-overload]
        try:
            if child.stdout.readline() != "ready\n":
                raise SystemExit("the clients do not come in")
            yield
            if child.poll() is not None:
                raise SystemExit(f"the clients left before they were told to, with status {child.returncode}")
        finally:
            child.stdin.close()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
