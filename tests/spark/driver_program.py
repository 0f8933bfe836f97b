"""Jobs with a driver that has 512 MB, and to which no job of Spark may bring more than 8; prints what came of them.

python driver_program.py load DATA MEGABYTES      loads so much, nearly all of it in topics, and lays it out again
python driver_program.py audit DATA
"""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from holdfast.pipeline import load, session
from holdfast.pipeline.audit.job import AuditJob, audit_history
from holdfast.pipeline.relayout.job import run_relayout
from holdfast.pipeline.relayout.plan import RelayoutJob

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
    found = audit_history(spark, AuditJob(data))
    return {"sound": found.sound, "examined": {check.name: check.examined for check in found.checks}}


def main(job: str, data: str, megabytes: str = "0") -> None:
    spark = session(master="local[2]", settings=MEMORY)
    found = run_load(spark, Path(data), int(megabytes)) if job == "load" else run_audit(spark, Path(data))
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
