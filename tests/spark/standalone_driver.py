"""A driver on a cluster: runs what standard input says, one line of JSON after the other, and answers with such lines.

python -m tests.spark.standalone_driver spark://HOST:PORT
"""

import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any, Final

from typer.testing import CliRunner

from holdfast.cli.main import app
from holdfast.pipeline import history, session

#: Small parts, so that there are enough tasks.
_ROWS: Final = "50"


def command(master: str, words: list[str]) -> dict[str, Any]:
    """`holdfast spark …`, in this process: Java is started once."""
    done = CliRunner().invoke(app, ["spark", *words, "--master", master])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        traceback.print_exception(done.exception, file=sys.stderr)
    return {"code": done.exit_code, "stdout": done.stdout, "output": f"{done.output}\n{done.exception!r}"}


def sees(master: str, path: str) -> dict[str, Any]:
    """Whether there is a file: for the driver, and for its executors."""

    def look(_number: int) -> tuple[int, bool]:
        return os.getppid(), os.path.exists(path)

    found = session(master=master).sparkContext.parallelize(range(8), 8).map(look).collect()
    return {"driver": os.path.exists(path), "executors": sorted({seen for _pid, seen in found})}


def read(master: str, endpoint: str, topic: str | None = None) -> list[str]:
    spark = session(master=master)
    if topic is not None:
        rows = history(spark, topic, endpoint=endpoint, columns=["payload"])
    else:
        source = spark.read.format("holdfast").options(endpoint=endpoint, columns="payload", rowsPerPartition=_ROWS)
        rows = source.load()
    return sorted(bytes(row.payload).decode() for row in rows.collect())


def stream(master: str, endpoint: str, folder: str, most: str = "400") -> int:
    """What is there, into Parquet, exactly once; how many rows there are now."""
    spark = session(master=master)
    given = {"endpoint": endpoint, "lease": "cluster", "maxRowsPerTrigger": most, "rowsPerPartition": "100"}
    rows = spark.readStream.format("holdfast").options(**given).load().select("payload")
    sink = rows.writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
    sink.trigger(availableNow=True).start(f"{folder}/rows").awaitTermination()
    return spark.read.parquet(f"{folder}/rows").count()


def payloads(master: str, folder: str) -> list[str]:
    """Of a table of Parquet, by its own list of files."""
    return sorted(bytes(row.payload).decode() for row in session(master=master).read.parquet(folder).collect())


ACTS: Final[dict[str, Callable[..., Any]]] = {
    found.__name__: found for found in (command, sees, read, stream, payloads)
}


def main(master: str) -> None:
    # Whatever a job prints stays out of the answers.
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            told = {"found": ACTS[asked.pop("act")](master, **asked)}
        except Exception:
            told = {"failed": traceback.format_exc()}
        print(json.dumps(told), file=answers, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
