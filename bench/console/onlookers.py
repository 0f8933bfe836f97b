"""People at the console, as a process of its own: overviews, a client list that is searched, Prometheus, a count.

    python -m bench.console.onlookers

It reads a line of JSON, `{"url": …, "token": …, "count": FOLDER or ""}`, prints "ready" when each has seen something,
looks until its standard input ends and each has seen something again, and then prints how often each has. With
`count`, filters of all messages of that data folder are counted, one after the other and each as if for the first time.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bench.checkout import ROOT
from bench.console.api import Api
from bench.console.children import environment, wait_for
from bench.console.topics import filters
from holdfast.history.past.counts_cache import FOLDER as COUNTS

if TYPE_CHECKING:
    from bench.console.nodes import Node

OVERVIEWS = 3
_SEARCH_S = 0.5
_SCRAPE_S = 5.0


class _Looks:
    """What all have seen, and whether they are to end."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._token = token
        self.ended = threading.Event()
        self.seen: Counter[str] = Counter()
        #: Who could not go on looking, and why.
        self.failures: list[str] = []

    def run(self, look: Callable[[_Looks, Api], None]) -> None:
        """In a thread, which ends with the process: who waits for an answer cannot be told to stop."""
        threading.Thread(target=self._try, args=(look,), daemon=True).start()

    def _try(self, look: Callable[[_Looks, Api], None]) -> None:
        try:
            look(self, Api(self._url, self._token))
        except (SystemExit, OSError, http.client.HTTPException) as error:
            self.failures.append(str(error) or type(error).__name__)


def _overview(looks: _Looks, api: Api) -> None:
    for line in api.lines("/api/v1/stream"):
        looks.seen["events"] += line.startswith(b"event: stats")
        if looks.ended.is_set():
            return


def _search(looks: _Looks, api: Api) -> None:
    for number in itertools.count():
        api.get("/api/v1/clients", q=f"press-{number % 10:05d}", sort="-owed", limit=100)
        looks.seen["searches"] += 1
        if looks.ended.wait(_SEARCH_S):
            return


def _scrape(looks: _Looks, api: Api) -> None:
    while True:
        api.get("/metrics")
        looks.seen["scrapes"] += 1
        if looks.ended.wait(_SCRAPE_S):
            return


def _count(folder: Path, looks: _Looks, api: Api) -> None:
    for wanted in filters():
        shutil.rmtree(folder / COUNTS, ignore_errors=True)
        for line in api.lines("/api/v1/history/density", filter=wanted, buckets=240):
            looks.seen["counts"] += 1
            if looks.ended.is_set():
                return
            del line


def main() -> int:
    told = json.loads(sys.stdin.readline())
    looks = _Looks(told["url"], told["token"])
    for _overview_number in range(OVERVIEWS):
        looks.run(_overview)
    looks.run(_search)
    looks.run(_scrape)
    if told["count"]:
        looks.run(lambda looks, api: _count(Path(told["count"]), looks, api))
    wanted = {"events", "searches", "scrapes", *(["counts"] if told["count"] else [])}

    def all_have_seen() -> bool:
        return bool(looks.failures) or wanted <= looks.seen.keys()

    wait_for("all have seen something", all_have_seen)
    print("ready", flush=True)
    looks.seen.clear()
    sys.stdin.read()
    # What takes a second may be too short for an answer that was asked for in it.
    wait_for("all see something again", all_have_seen)
    looks.ended.set()
    print(json.dumps({"seen": looks.seen, "failures": looks.failures}), flush=True)
    # Threads may wait for an answer.
    os._exit(0)


@contextmanager
def looking(node: Node, *, count: bool) -> Iterator[None]:
    """The process, for the length of the block."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, "-m", "bench.console.onlookers"]
    told = {"url": node.url, "token": node.token, "count": str(node.data) if count else ""}
    with subprocess.Popen(command, cwd=ROOT, env=environment(), **pipes) as child:  # type: ignore[call-overload]
        try:
            child.stdin.write(json.dumps(told) + "\n")
            child.stdin.flush()
            if child.stdout.readline() != "ready\n":
                raise SystemExit("nobody came to look")
            yield
        finally:
            child.stdin.close()
            said = child.stdout.read()
    outcome = json.loads(said or '{"seen": {}, "failures": ["they left"]}')
    if outcome["failures"]:
        raise SystemExit(f"while it was measured, somebody could not look: {outcome['failures'][0]}")
    if not outcome["seen"] or (count and not outcome["seen"].get("counts")):
        raise SystemExit("while it was measured, nobody saw anything")


if __name__ == "__main__":
    sys.exit(main())
