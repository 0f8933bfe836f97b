"""A broker under a steady load for a real hour: does its memory stay where it was?

    PYTHONPATH=.compiled python -m tests.soak.steady_load --minutes 60

200 persistent subscribers of QoS 1 and 2 get messages all the time, lose their connections, come back, and take each
other over. Every promise is checked as in the crash tests. At the end the broker is stopped, started and verified, and
the memory is printed: after ten minutes and at the end (means of three minutes), smallest, largest, and its slope.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import holdfast
from holdfast.model.protocol import V5, V311
from tests.crash.broker_run import Run

SUBSCRIBERS = 200
TOPICS = 50
PUBLISHERS = 5
#: How likely a subscriber drops its connection after a read; half of the time the broker does not notice.
RESTLESS = 0.02
_SAMPLE_S = 10.0
_WARM_S = 600.0
#: Samples that are averaged, after the warm-up and at the end.
_WINDOW = 18


def memory_mb(pid: int) -> float:
    """Resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def slope(samples: list[tuple[float, float]]) -> float:
    """MB an hour, by least squares."""
    mean_s = sum(at for at, _mb in samples) / len(samples)
    mean_mb = sum(mb for _at, mb in samples) / len(samples)
    spread = sum((at - mean_s) ** 2 for at, _mb in samples) or 1.0
    return 3600 * sum((at - mean_s) * (mb - mean_mb) for at, mb in samples) / spread


async def everybody_in(run: Run) -> None:
    for number in range(SUBSCRIBERS):
        version = V5 if number % 4 else V311
        topic_filter = f"load/+/{number % TOPICS}"
        await run.subscriber(f"subscriber-{number}", version, topic_filter, 1 + number % 2, restless=RESTLESS)
    for number in range(PUBLISHERS):
        topics = {f"load/{number}/{topic}": 1 + topic % 2 for topic in range(TOPICS)}
        run.publisher(f"publisher-{number}", V5, topics, pace_s=0.2)


async def watch(run: Run, minutes: float) -> list[tuple[float, float]]:
    """Sample the broker's memory, with a line a minute."""
    samples: list[tuple[float, float]] = []
    began = time.monotonic()
    said = 0
    while (now := time.monotonic() - began) < 60 * minutes:
        samples.append((now, memory_mb(run.broker.pid())))
        if int(now // 60) > said or not samples[1:]:
            said = int(now // 60)
            print(f"{said:3} min  {samples[-1][1]:6.1f} MB  {run.summary()}", flush=True)
        run.check_tasks()
        await asyncio.sleep(_SAMPLE_S)
    return samples


async def timed_restart(run: Run) -> tuple[float, float]:
    began = time.monotonic()
    await run.broker.stop()
    stopped = time.monotonic()
    await run.broker.start()
    await run.broker.listening()
    return stopped - began, time.monotonic() - stopped


def verify(data: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(holdfast.__file__).resolve().parents[1])}
    program = "from holdfast.cli.main import main; main()"
    command = [sys.executable, "-c", program, "verify", "--data", str(data)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


async def live(folder: Path, minutes: float) -> int:
    run = Run(folder, seed=1)
    await run.broker.start()
    try:
        await everybody_in(run)
        samples = await watch(run, minutes)
        await run.drain()
        problems = run.verdict() + run.broker.complaints()
        for client in [*run.subscribers, *run.publishers]:
            client.leave()
        stop_s, start_s = await timed_restart(run)
    finally:
        await run.close()
    verified = await asyncio.to_thread(verify, folder / "data")
    warm = [sample for sample in samples if sample[0] >= _WARM_S] or samples
    sizes = [mb for _at, mb in warm]
    # Means of a few minutes: memtables fill and are flushed twice a minute, which moves single samples by 30 MB.
    window = min(_WINDOW, len(sizes))
    first, last = sum(sizes[:window]) / window, sum(sizes[-window:]) / window
    growth = 100 * (last / first - 1)
    print(f"memory after {warm[0][0] / 60:.0f} min {first:.1f} MB, at the end {last:.1f} MB ({growth:+.1f} %)")
    print(f"smallest {min(sizes):.1f} MB, largest {max(sizes):.1f} MB, slope {slope(warm):+.2f} MB an hour")
    print(f"stop {stop_s:.2f} s, start {start_s:.2f} s, verify: {verified.stdout.strip().splitlines()[-1:]}")
    print(run.summary())
    for problem in problems[:20]:
        print(problem)
    return 1 if problems or verified.returncode or growth > 10 else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.steady_load", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(live(Path(folder), arguments.minutes))


if __name__ == "__main__":
    raise SystemExit(main())
