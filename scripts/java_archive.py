"""Write an archive of the Java classes that Spark loads, with which a Spark starts faster: `… FILE`.

12 s instead of 21 for a session and its first query, on a busy machine. Java maps such a file into memory instead of
reading, checking and linking ten thousand classes. One that does not fit its version or its class path, it ignores.
Nothing else depends on it, so if it cannot be made, that is said and no failure.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

_PATIENCE_S = 300


def write(archive: Path) -> None:
    """In a separate process: the options of its Java come from the environment."""
    given = os.environ.get("JDK_JAVA_OPTIONS", "")
    options = f"{given} -Xlog:disable -XX:ArchiveClassesAtExit={archive}"
    subprocess.run(
        [sys.executable, __file__],
        env={**os.environ, "JDK_JAVA_OPTIONS": options},
        check=True,
        timeout=_PATIENCE_S,
        capture_output=True,
        text=True,
    )


def work() -> None:
    """A little of what tests have Spark do."""
    from holdfast.pipeline.spark.session import session

    spark = session(master="local[2]")
    with tempfile.TemporaryDirectory() as folder:
        table = f"{folder}/table"
        numbers = spark.range(1000).selectExpr("id", "cast(id % 7 as string) as word", "now() as ts")
        numbers.write.parquet(table)
        numbers.createOrReplaceTempView("numbers")
        spark.sql("select word, count(*), max(id) from numbers group by word order by word").collect()
        spark.read.parquet(table).mapInArrow(lambda batches: batches, "id long, word string, ts timestamp").collect()
        stream = spark.readStream.schema("id long, word string, ts timestamp").parquet(table)
        query = stream.writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
        query.trigger(availableNow=True).start(f"{folder}/out").awaitTermination()
    spark.stop()


if __name__ == "__main__":
    if len(sys.argv) == 1:
        work()
    else:
        target = Path(sys.argv[1])
        target.unlink(missing_ok=True)
        try:
            write(target)
        except (OSError, subprocess.SubprocessError) as error:
            print(f"holdfast: no archive of Java's classes, Spark will start slowly: {error}")
