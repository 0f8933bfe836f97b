"""Jobs with a driver that has 512 MB, and to which no job of Spark may bring more than 8; prints what came of them.

python driver_program.py load DATA MEGABYTES      loads so much, nearly all of it in topics, and lays it out again
python driver_program.py audit DATA
python driver_program.py compact LAKE                replaces its small files; an executor is killed meanwhile
"""

import json
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from holdfast.pipeline import load, session
from holdfast.pipeline.audit.job import AuditJob, audit_history
from holdfast.pipeline.lake.lake import Lake
from holdfast.pipeline.lake.upkeep import compact, remove_orphans
from holdfast.pipeline.lake.writer import lock_folder
from holdfast.pipeline.relayout.job import run_relayout
from holdfast.pipeline.relayout.plan import RelayoutJob
from holdfast.pipeline.spark.runner import SparkRunner

MEMORY = {"spark.driver.memory": "512m", "spark.driver.maxResultSize": "8m"}
#: Topics that are alike, and bytes of each of the others.
DEVICES = 5_000
LONG_BYTES = 30_000
_HASHES = LONG_BYTES // 128
OLD_S = 1_700_000_000


def run_load(spark: SparkSession, data: Path, megabytes: int) -> dict[str, object]:
    many = (megabytes << 20) // LONG_BYTES
    text = f"array_join(transform(sequence(1, {_HASHES}), k -> sha2(concat(id, ':', k), 512)), '')"
    rows = spark.range(0, DEVICES + many, 1, 8).selectExpr(
        f"({OLD_S}L * 1000 + id) AS ts",
        f"if(id < {DEVICES}, concat('plant/', id, '/temp'), concat('long/', {text})) AS topic",
        "CAST(id AS STRING) AS payload",
    )
    loaded = load(spark, rows, data, name="long")
    relaid = run_relayout(spark, RelayoutJob(data, layout="learned", zone="default~1"))
    return {
        "loaded": [loaded.messages, loaded.verified],
        "wanted": DEVICES + many,
        "relaid": [[one.record.layout, one.messages] for one in relaid.generations],
    }


def run_audit(spark: SparkSession, data: Path) -> dict[str, object]:
    found = audit_history(spark, AuditJob({"path": str(data)}))
    return {"sound": found.sound, "examined": {check.name: check.examined for check in found.checks}}


@dataclass(frozen=True)
class KilledOnce:
    """Work whose first task has written its file, and takes its executor with it before anybody knows."""

    work: Any
    marker: Path

    def __call__(self, task: Any) -> Any:
        done = self.work(task)
        with suppress(FileExistsError):
            self.marker.touch(exist_ok=False)
            daemon = psutil.Process(os.getppid())
            os.kill(daemon.ppid(), signal.SIGKILL)
            daemon.kill()
            os.kill(os.getpid(), signal.SIGKILL)
        return done


def peak_kb() -> int:
    """The most memory that this process has had; Java is another one, and has what it was given."""
    return int(Path("/proc/self/status").read_text(encoding="ascii").partition("VmHWM:")[2].split()[0])


def run_compact(spark: SparkSession, lake: Path) -> dict[str, object]:
    runner = SparkRunner(spark)
    runner(abs, [1, 2])
    before_kb, done = peak_kb(), 0
    with lock_folder(lake):
        opened = Lake.open(lake)
        while replaced := compact(opened, lambda work, tasks: runner(KilledOnce(work, lake / "killed"), tasks)):
            done += replaced
        grown_kb = peak_kb() - before_kb
        return {"replaced": done, "grown_kb": grown_kb, "orphans": remove_orphans(opened)}


def main(job: str, data: str, megabytes: str = "0") -> None:
    master = "local-cluster[2,1,1024]" if job == "compact" else "local[2]"
    spark = session(master=master, settings=MEMORY)
    found: dict[str, object]
    if job == "compact":
        found = run_compact(spark, Path(data))
    else:
        found = run_load(spark, Path(data), int(megabytes)) if job == "load" else run_audit(spark, Path(data))
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
