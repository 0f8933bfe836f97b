"""A Spark session with everything set that reading history needs.

    spark = session()                                       this machine, all its cores
    spark = session(master="spark://host:7077")             a cluster

1. A session that runs already is taken as it is, and given what can be set later.
2. What the caller sets wins over what is set here.
3. On one machine nothing listens beyond loopback.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from holdfast.pipeline.source.data_source import HoldfastSource
from holdfast.pipeline.spark.java import java_home

_LOG_SETTINGS: Final = Path(__file__).with_name("log4j2.properties")

#: May be set in a session that runs.
_RUNTIME: Final = {
    # Without it Spark refuses a source with the option `pushdown`.
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # A failing worker's own traceback, and not that of the machinery around it.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "true",
}
#: Have to be there when Java starts.
_STATIC: Final = {
    # Over TCP, batches of 16,384 rows stall.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}",
}
_LOOPBACK: Final = "127.0.0.1"


def session(
    name: str = "holdfast", *, master: str | None = None, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """The session of this process, made if there is none; `settings` are Spark's own.

    `master` is `local[*]` unless it is given here, in `settings`, or by spark-submit.
    """
    running = SparkSession.getActiveSession()
    if running is not None:
        given = {**_RUNTIME, **(settings or {})}
        for key in [key for key in given if running.conf.isModifiable(key)]:
            running.conf.set(key, given[key])
        running.dataSource.register(HoldfastSource)
        return running
    # Workers run on the Python that runs this, with its packages, unless the environment says otherwise.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    for key, value in _chosen(master, settings or {}).items():
        builder = builder.config(key, value)
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        os.environ["JAVA_HOME"] = str(java_home())
    spark = builder.getOrCreate()
    spark.dataSource.register(HoldfastSource)
    return spark


def _chosen(master: str | None, settings: Mapping[str, str]) -> dict[str, str]:
    # Under spark-submit Java runs already, and has its master.
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    chosen = {} if submitted else {"spark.master": master or "local[*]"}
    chosen |= {**_RUNTIME, **_STATIC, **settings}
    if master is not None:
        chosen["spark.master"] = master
    if chosen.get("spark.master", "").startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
        chosen.setdefault("spark.driver.host", _LOOPBACK)
        chosen.setdefault("spark.driver.bindAddress", _LOOPBACK)
        # Spark's 200 are meant for a cluster.
        chosen.setdefault("spark.sql.shuffle.partitions", str(max(2, os.cpu_count() or 2)))
    return chosen
