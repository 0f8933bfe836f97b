"""A client of Spark Connect: reads, streams and asks in SQL, and prints what came as JSON.

python -m tests.spark.connect_program sc://HOST:PORT ENDPOINT TOKEN_FILE AUTHORITIES FOLDER
"""

import json
import os
import sys
from typing import Any

from holdfast.model.errors import SettingsError
from holdfast.pipeline import history, session


def refusal(**given: Any) -> str:
    """Why `session` does not make one."""
    try:
        session(**given)
    except SettingsError as error:
        return str(error)
    return ""


def main(remote: str, endpoint: str, token_file: str, authorities: str, folder: str) -> None:
    settings = {"spark.sql.shuffle.partitions": "3"}
    spark = session(remote=remote, settings=settings)
    where: dict[str, Any] = {"endpoint": endpoint, "token_file": token_file, "ca": authorities}
    table = history(spark, columns=["shard", "serial", "topic", "payload"], **where)
    table.createOrReplaceTempView("messages")
    rows = spark.sql("SELECT topic, count(*) AS n FROM messages GROUP BY topic").collect()

    options = {"endpoint": endpoint, "tokenFile": token_file, "ca": authorities}
    follow = spark.readStream.format("holdfast").options(**options, lease="connect", maxRowsPerTrigger="40")
    stream = follow.load()
    sink = stream.select("shard", "serial", "payload").writeStream.format("parquet")
    sink = sink.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)
    sink.start(f"{folder}/rows").awaitTermination()

    sessions = spark.read.format("holdfast").options(**options, table="sessions").load()
    written = spark.read.parquet(f"{folder}/rows")
    print(
        json.dumps(
            {
                "rows": sorted(bytes(row.payload).decode() for row in table.collect()),
                "filtered": history(spark, "plant/3", **where).count(),
                "counts": {row.topic: row.n for row in rows},
                "streamed": sorted(bytes(row.payload).decode() for row in written.collect()),
                "sessions": sessions.count(),
                "again": session() is spark,
                "zone": spark.conf.get("spark.sql.session.timeZone"),
                "partitions": spark.conf.get("spark.sql.shuffle.partitions"),
                "java": "JAVA_HOME" in os.environ,
                "refusals": [
                    refusal(remote=remote, master="local[2]"),
                    refusal(remote=remote, settings={"spark.driver.memory": "1g"}),
                    refusal(remote="spark://localhost:7077"),
                ],
            }
        )
    )
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
