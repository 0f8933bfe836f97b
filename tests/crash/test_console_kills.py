"""The console, the history process and a job killed at random instants, while they are asked and clients are at work.

The broker and its clients do not notice. Console and history come back by themselves, a job says that it ended and goes
on behind its place. HOLDFAST_CONSOLE_KILLS=100 digs deeper.
"""

import asyncio
import http.client
import json
import os
import random
import signal
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest

from bench.ports import free_port
from holdfast.files.token_file import add_token
from holdfast.model.protocol import V5, V311
from tests.crash.broker_process import BrokerProcess
from tests.crash.broker_run import Run

KILLS = int(os.environ.get("HOLDFAST_CONSOLE_KILLS", "8"))
SEED = int(os.environ.get("HOLDFAST_CRASH_SEED", "1"))
#: Events of clients between two kills, at most.
_MOST_EVENTS = 200
_PATIENCE_S = 90.0
#: By a part of their command lines.
_PROCESSES = {"console": "console_main", "history": "history_main", "job": "holdfast.cli.job"}
#: Makes minutes of the milliseconds between two messages: it runs until it is killed.
_SLOW = "0.00001"

#: Below a prefix that no client reads.
_JOB = {"kind": "replay", "filter": "crash/#", "from": "earliest", "speed": _SLOW, "prefix": "replayed/"}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300 + 15 * KILLS)]


async def quick_clients(run: Run) -> None:
    """None of them falls behind, so that it shows if the broker does."""
    await run.subscriber("two", V5, "crash/#", 2)
    await run.subscriber("one", V311, "crash/#", 1)
    run.publisher("p5", V5, {"crash/p5/one": 1, "crash/p5/two": 2}, pace_s=0.02)
    run.publisher("s3", V311, {"state/s3/0": 1, "state/s3/1": 2}, retain=True, pace_s=0.02)


class Viewer:
    """Asks the console of a broker, by a token."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        tokens = folder / "tokens"
        self._token = add_token(tokens, "viewer", role="operator")
        self.assignments = ("console.enabled=true", f"console.port={self.port}", f"console.token_file={tokens}")

    async def plays(self) -> None:
        """Ensures: a job publishes what came so far again, elsewhere; the one that was killed before goes on."""
        async with asyncio.timeout(_PATIENCE_S):
            while True:
                status, answer = await asyncio.to_thread(self._ask, "/api/v1/jobs")
                jobs = answer.get("items", [])
                if status == http.client.OK and jobs and jobs[0]["state"] == "running":
                    return
                if status == http.client.OK and jobs:
                    await asyncio.to_thread(self._ask, f"/api/v1/jobs/{jobs[0]['id']}/resume", {"speed": _SLOW})
                elif status == http.client.OK:
                    status, answer = await asyncio.to_thread(self._ask, "/api/v1/jobs", _JOB)
                    assert status != http.client.BAD_REQUEST, answer
                await asyncio.sleep(0.1)

    async def looks(self) -> None:
        """Ensures: the present and the past were shown, after as many tries as it takes."""
        async with asyncio.timeout(_PATIENCE_S):
            for path in ("/api/v1/clients", "/api/v1/history/messages?filter=%23"):
                while (await asyncio.to_thread(self._ask, path))[0] != http.client.OK:  # noqa: ASYNC110
                    await asyncio.sleep(0.1)

    def _ask(self, path: str, change: dict[str, str] | None = None) -> tuple[int, dict[str, Any]]:
        """The status and the answer; 0 if nothing answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        headers = {"Authorization": f"Bearer {self._token}", "X-Holdfast": "1", "Content-Type": "application/json"}
        try:
            body = None if change is None else json.dumps(change)
            connection.request("GET" if change is None else "POST", path, body, headers)
            answer = connection.getresponse()
            found = json.loads(answer.read())
        except (OSError, ValueError, http.client.HTTPException):
            return 0, {}
        finally:
            connection.close()
        return answer.status, found


def kill_one(broker: BrokerProcess, dice: random.Random) -> str:
    """kill -9 of the console, of the history process or of the job; which."""
    what, name = dice.choice(list(_PROCESSES.items()))
    children = psutil.Process(broker.pid()).children(recursive=True)
    (victim,) = [child for child in children if any(name in word for word in child.cmdline())]
    victim.send_signal(signal.SIGKILL)
    return what


def jobs_of(broker: BrokerProcess) -> int:
    children = psutil.Process(broker.pid()).children(recursive=True)
    return sum(any(_PROCESSES["job"] in word for word in child.cmdline()) for child in children)


def test_no_client_notices_kills_of_the_console_of_the_history_process_and_of_jobs(tmp_path: Path) -> None:
    viewer = Viewer(tmp_path)

    async def story() -> tuple[Run, set[str]]:
        run = Run(tmp_path, SEED, assignments=viewer.assignments)
        await run.broker.start()
        killed: set[str] = set()
        try:
            await quick_clients(run)
            for _kill in range(KILLS):
                await viewer.looks()
                await viewer.plays()
                looking = asyncio.create_task(viewer.looks())
                await run.live(run.dice.randrange(_MOST_EVENTS))
                killed.add(kill_one(run.broker, run.dice))
                await looking
            await viewer.looks()
            await viewer.plays()
            assert jobs_of(run.broker) == 1, "each that was killed has ended"
            await run.drain()
            await run.probe_retained()
        finally:
            await run.close()
        return run, killed

    run, killed = asyncio.run(story())
    shown = f"seed {SEED}, {run.summary()}"
    assert killed == set(_PROCESSES), shown
    assert run.verdict() == [], shown
    assert run.broker.complaints() == [], shown
    assert run.ledger.acknowledged > 10, shown
