"""A process that reads all of the history, again and again, until its standard input ends; then prints how many rows.

python -m bench.history.scanner <endpoint>
"""

from __future__ import annotations

import sys
import threading

from holdfast.history.flight.client import FlightHistory


def main(endpoint: str) -> int:
    ended = threading.Event()
    threading.Thread(target=_watch, args=(ended,), daemon=True).start()
    rows = 0
    with FlightHistory(endpoint) as history:
        print("ready", flush=True)
        while not ended.is_set():
            for part in history.parts():
                for batch in history.batches(part):
                    rows += batch.num_rows
                    if ended.is_set():
                        break
    print(rows, flush=True)
    return 0


def _watch(ended: threading.Event) -> None:
    sys.stdin.read()
    ended.set()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
