"""One MQTT subscriber in a separate process: takes the messages of a replay, and reports their number.

python -m bench.parallel.reader <port> <client id> <filter> <file> <place>

It connects, prints "ready", subscribes when a line comes in, and counts into its place of the file, 8 bytes for each
reader, until standard input ends. Then it prints the processor time that took, in s.
"""

from __future__ import annotations

import mmap
import select
import struct
import sys
import time
from pathlib import Path

from bench.brokers.crowd import Crowd
from bench.stress.clients import VERSION, Fetcher

_QOS = 1


def main(port: str, client_id: str, filter_text: str, file: str, place: str) -> int:
    crowd = Crowd([int(port)], VERSION)
    (fetcher,) = crowd.open(lambda _place: Fetcher(crowd), [client_id])
    with Path(file).open("r+b") as opened, mmap.mmap(opened.fileno(), 0) as counts:
        print("ready", flush=True)
        sys.stdin.readline()
        began_s = time.process_time()
        crowd.subscribe([fetcher], [[filter_text]], _QOS)
        while True:
            struct.pack_into("<q", counts, 8 * int(place), fetcher.got)
            readable, _, _ = select.select([crowd.poll, sys.stdin], [], [])
            if sys.stdin in readable:
                break
            crowd.step(0.0)
        print(time.process_time() - began_s, flush=True)
    crowd.close([fetcher])
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
