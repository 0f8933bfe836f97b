"""The load generator's process: reads one job as a line of JSON, does it, prints its figures as a line of JSON.

It speaks MQTT over plain sockets with epoll: no asyncio, no objects per message, PUBLISH packets prepared before the
clock starts, and everything that comes in counted and checked by slices (see `stream`). So it needs a fraction of a
microsecond per message, and where that is not enough its own figures say so: `generator_share` near 1.

    python -m bench.brokers.generator
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable

from bench.brokers import jobs
from bench.brokers.backlog import measure_backlog
from bench.brokers.jobs import Job, Outcome
from bench.brokers.load import measure_closed, measure_open
from bench.brokers.replay import measure_replay
from bench.brokers.storm import measure_churn, measure_idle, measure_sessions, measure_storm
from bench.brokers.stream import LostError
from bench.brokers.usage import Usage

KINDS: dict[str, Callable[[Job, Usage], dict[str, dict[str, float]]]] = {
    jobs.CLOSED: measure_closed,
    jobs.OPEN: measure_open,
    jobs.BACKLOG: measure_backlog,
    jobs.REPLAY: measure_replay,
    jobs.STORM: measure_storm,
    jobs.CHURN: measure_churn,
    jobs.IDLE: measure_idle,
    jobs.SESSIONS: measure_sessions,
}


def run(job: Job) -> Outcome:
    gc.disable()  # nothing here leaves cycles behind
    try:
        return Outcome(KINDS[job.kind](job, Usage(job.pids, alone=job.alone)))
    except (LostError, OSError) as error:
        return Outcome(problem=str(error) or type(error).__name__)


if __name__ == "__main__":
    print(jobs.encode_outcome(run(jobs.decode_job(sys.stdin.readline()))))
