"""A process that erases a client, to be killed: with its tasks in itself, so that it costs no Java.

python -m tests.spark.retain_process DATA LAKE CLIENT
"""

import sys
from pathlib import Path

from holdfast.pipeline.retain import RetainJob, run_retain
from tests.spark.lakes import here

if __name__ == "__main__":
    data, lake, client = sys.argv[1:]
    run_retain(RetainJob(Path(lake), Path(data), client=client, by="test"), lambda: here)
