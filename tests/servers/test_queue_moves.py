"""Queues move from home to home by commands that are killed meanwhile: serials, order and content stay as they were."""

import os
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from bench.queues.postgres_server import PostgresServer
from bench.queues.redis_server import RedisCluster, RedisServer
from holdfast.durable.queues.queue_store import QueueStore
from tests.mqtt.broker_process import DEADLINE_S
from tests.servers.backends import held, on
from tests.servers.entries import append, entries

pytestmark = pytest.mark.slow

#: Sorted after the others, and so long that a kill finds it half moved.
LONG = "z"
LONG_MESSAGES = 6_000


async def fill(store: QueueStore) -> None:
    for place in range(20):
        client_id = f"device-{place}/ü%{{"
        first = 10_000 + 10 * place
        await append(store, client_id, entries(*range(first, first + 1 + place % 5)))
        await store.acknowledge([(client_id, [1, 4])])
        await store.release(client_id, [2])
    for first in range(1, LONG_MESSAGES, 500):
        await append(store, LONG, entries(*range(first, first + 500)))
    await store.acknowledge([(LONG, [1, 2, 3, 400, LONG_MESSAGES])])


def start(*arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", "from holdfast.cli.main import main; main()", "queue", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def killed_halfway(target: str, *arguments: str) -> None:
    """Run a command, and kill it when a part of the long queue has arrived."""
    with start(*arguments) as process:
        try:
            on(target, lambda store: _arrived(store, process))
        finally:
            process.send_signal(signal.SIGKILL)
            process.communicate(timeout=DEADLINE_S)
    assert process.returncode == -signal.SIGKILL, "it was through before"
    assert 0 < on(target, lambda store: store.last(LONG))[0] < LONG_MESSAGES


async def _arrived(store: QueueStore, process: "subprocess.Popen[str]") -> None:
    while (await store.last(LONG))[0] == 0:
        assert process.poll() is None, process.communicate()


def done(*arguments: str) -> None:
    with start(*arguments) as process:
        _said, complained = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, complained


def test_queues_go_from_home_to_home_though_commands_are_killed(
    tmp_path: Path, redis: RedisServer, redis_cluster: RedisCluster, postgres: PostgresServer
) -> None:
    """Q9, S11: by `migrate` through all servers, by `export` and `import` out of a file."""
    members = ",".join(urlsplit(url).netloc for url in redis_cluster.urls)
    places = [
        f"{redis.url}#moves-{os.getpid()}:",
        f"redis+cluster://{members}#moves-{os.getpid()}:",
        f"{postgres.url}#moves",
    ]
    on(places[0], fill)
    wanted = on(places[0], held)
    assert len(wanted[LONG][1]) == LONG_MESSAGES - 5

    for source, target in pairwise(places):
        command = ("migrate", "--from", source, "--to", target, "--keep")
        killed_halfway(target, *command)
        done(*command)
        assert on(target, held) == wanted

    file, journal = str(tmp_path / "queues.hfq"), f"journal:{tmp_path / 'journal'}"
    done("export", places[-1], "-o", file)
    back = f"{redis.url}#back-{os.getpid()}:"
    killed_halfway(back, "import", file, back)
    done("import", file, back)
    done("migrate", "--from", back, "--to", journal, "--keep")
    assert on(back, held) == on(journal, held) == wanted
