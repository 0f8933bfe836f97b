"""A process that archives, to be killed: with its tasks in itself, so that it costs no Java.

    python -m tests.spark.archive_process DATA LAKE ROWS

It says `ready`, and then how many rows are safe, batch by batch.
"""

import sys
from pathlib import Path
from typing import Any

from holdfast.pipeline.archive_run import ArchiveJob, run_archive
from holdfast.pipeline.options import parse_options


def _here(work: Any, tasks: Any) -> list[Any]:
    return [work(task) for task in tasks]


def main(data: str, lake: str, rows: str) -> None:
    job = ArchiveJob(parse_options({"path": data}), Path(lake), "main", batch_rows=int(rows))
    print("ready", flush=True)
    run_archive(job, lambda: _here, lambda outcome, _batch: print(outcome.rows, flush=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
