"""A process that replaces small files of a lake, to be killed: with its tasks in itself, so that it costs no Java.

    python -m tests.spark.compaction_process LAKE [SILENCE_S]

It says `ready`, and at the end how many files it has replaced.
"""

import sys

from holdfast.pipeline.lake import writer
from holdfast.pipeline.lake.retention import RetainJob, run_retain
from tests.unit.pipeline.local_archive import here


def main(lake: str, silence_s: str = "30") -> None:
    writer.SILENCE_S = float(silence_s)  # type: ignore[misc]
    print("ready", flush=True)
    print(run_retain(RetainJob(lake, compacts=True), lambda: here).compacted)


if __name__ == "__main__":
    main(*sys.argv[1:])
