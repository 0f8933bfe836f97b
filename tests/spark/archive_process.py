"""A process that archives, to be killed: with its tasks in itself, so that it costs no Java.

    python -m tests.spark.archive_process DATA LAKE ROWS [SILENCE_S]

It says `ready`, and then how many rows are safe, batch by batch.
"""

import sys
from typing import Any

from holdfast.pipeline.lake import writer
from holdfast.pipeline.lake.archive_job import ArchiveJob, run_archive
from holdfast.pipeline.source.read_options import parse_read_options


def _here(work: Any, tasks: Any) -> list[Any]:
    return [work(task) for task in tasks]


def main(data: str, lake: str, rows: str, silence_s: str = "30") -> None:
    writer.SILENCE_S = float(silence_s)  # type: ignore[misc]
    job = ArchiveJob(parse_read_options({"path": data}), lake, "main", batch_rows=int(rows))
    print("ready", flush=True)
    run_archive(job, lambda: _here, lambda outcome, _batch: print(outcome.rows, flush=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
