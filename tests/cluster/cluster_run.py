"""A cluster under load whose nodes are killed at random instants, and the verdict on what its clients saw.

python -m tests.cluster.cluster_run --kills 20 --seed 7
"""

import argparse
import asyncio
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from holdfast.model.protocol import V5, V311
from holdfast.storage.rocks.checking.verification import verify_folder
from tests.cluster.cluster_processes import ClusterProcesses
from tests.crash.broker_process import BrokerProcess
from tests.crash.broker_run import Run


async def cluster_clients(run: Run) -> None:
    """Both versions, both QoS, quick, slow and restless subscribers, retained values."""
    both = {"crash/{}/one/a": 1, "crash/{}/one/b": 1, "crash/{}/two/a": 2, "crash/{}/two/b": 2}
    await run.subscriber("all-v5", V5, "crash/#", 2)
    await run.subscriber("all-v3", V311, "crash/#", 2, subscribe_always=True)
    await run.subscriber("one-v5", V5, "crash/#", 1, receive_maximum=7)
    await run.subscriber("slow-v5", V5, "crash/+/two/#", 2, receive_maximum=5, slow=True)
    await run.subscriber("restless-v5", V5, "crash/+/+/a", 2, restless=0.05)
    for name, version in (("p5", V5), ("p3", V311)):
        run.publisher(name, version, {topic.format(name): qos for topic, qos in both.items()})
    run.publisher("s5", V5, {f"state/s5/{number}": 1 + number % 2 for number in range(4)}, retain=True)


async def _kill_one(broker: BrokerProcess) -> None:
    await broker.kill()


async def crash_cluster(folder: Path, seed: int, kills: int, say: Callable[[str], None] | None = None) -> Run:
    """The whole story; the verdict is the caller's."""
    run = Run(folder, seed)
    run.retained_may_be_behind = True
    processes = run.broker = ClusterProcesses(folder, random.Random(seed))
    await processes.start()
    try:
        await cluster_clients(run)
        while run.kills < kills:
            await run.die(_kill_one)
            await processes.all_listening()
            if run.dice.random() < 0.3:
                await run.live(1)
                await run.probe_retained()
            if say is not None:
                say(f"{run.summary()}; {run.ledger.violations}")
        await run.live(1)
        await run.drain()
        await run.probe_retained()
    finally:
        await run.close()
    for folder in processes.folders():
        for problem in verify_folder(folder).problems:
            run.ledger.wrong(f"verify {folder.name}: {problem}")
    return run


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="holdfast-cluster-"))
    print(f"seed {asked.seed}, in {folder}", flush=True)
    run = asyncio.run(crash_cluster(folder, asked.seed, asked.kills, lambda line: print(line, flush=True)))
    found = run.verdict() + run.broker.complaints()
    print(f"{run.summary()}; lost {run.ledger.lost()}, QoS 2 twice {run.ledger.twice()}")
    print("\n".join(found[:60]) if found else "clean")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
