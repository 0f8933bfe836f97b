"""A Spark session with everything set that reading history needs.

    spark = session()                                       this machine, all its cores
    spark = session(master="spark://host:7077")             a cluster
    spark = session(remote="sc://host:15002")               a server of Spark Connect

1. A session that runs already is taken as it is, and given what can be set later.
2. What the caller sets wins over what is set here.
3. On one machine nothing listens beyond loopback.
4. On one machine it starts with what `start_cache` has, unless SPARK_HOME names another Spark, and without if Java dies
   of it. Clusters have files of their own, and some are sent those of the driver's home, which have to be files.
5. A server of Spark Connect has its Java, its master and its static settings: nothing is started here.
6. On one machine, Java and its workers run at a low priority: a broker beside them goes first.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from holdfast.model.errors import SettingsError
from holdfast.pipeline.source.data_source import HoldfastSource
from holdfast.pipeline.spark.installation import spark_version
from holdfast.pipeline.spark.java import java_home
from holdfast.pipeline.spark.log import LOGGER
from holdfast.pipeline.spark.start_cache import Say, StartFiles, prepare_start, set_aside

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
#: What a client of Spark Connect needs, by package: a module of each.
_CONNECT: Final = {
    "grpcio": "grpc",
    "grpcio-status": "grpc_status",
    "googleapis-common-protos": "google.rpc",
    "zstandard": "zstandard",
}
#: All cores, and four attempts at a task, as on a cluster: `local[*]` has one, so that a killed worker fails the job.
_HERE: Final = "local[*,4]"
_LOOPBACK: Final = "127.0.0.1"
#: The priority of Spark beside a broker, as `nice` counts.
_NICE: Final = 10
#: OSError: Java is not there any more to be asked.
_START_ERRORS: Final = (PySparkException, Py4JError, OSError)
#: What Java takes to end once it does not answer.
_DEATH_S: Final = 10
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
#: A Java that only puts the command of the other one together, and ends.
_LAUNCHER_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"


def session(
    name: str = "holdfast",
    *,
    master: str | None = None,
    remote: str | None = None,
    settings: Mapping[str, str] | None = None,
    say: Say = LOGGER.info,
) -> SparkSession:
    """The session of this process, made if there is none; `settings` are Spark's own.

    `master` is `local[*,4]`, four attempts at a task, unless it is given here, in `settings`, or by spark-submit.
    `remote` is a server of Spark Connect, sc://HOST:PORT; its Python has Holdfast, too. `say` receives what it does, if
    that takes seconds.
    """
    if remote is not None:
        return _remote_session(remote, master, settings or {}, say)
    running = SparkSession.getActiveSession()
    if running is not None:
        given = {**_RUNTIME, **(settings or {})}
        for key in [key for key in given if running.conf.isModifiable(key)]:
            running.conf.set(key, given[key])
        running.dataSource.register(HoldfastSource)
        return running
    # Workers run on the Python that runs this, with its packages, unless the environment says otherwise.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    chosen = _chosen(master, settings or {})
    files = StartFiles()
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        java = java_home()
        os.environ["JAVA_HOME"] = str(java)
        if _is_here(chosen) and "SPARK_HOME" not in os.environ:
            files = prepare_start(java, say, java_options=chosen[_JAVA_OPTIONS])
    say(f"starting Spark {spark_version()}")
    with _start_environment(files):
        spark = start_session(lambda options: _build(name, chosen, options), files)
    if _is_here(chosen):
        _lower_priority()
    spark.dataSource.register(HoldfastSource)
    return spark


def _lower_priority() -> None:
    """Lower the priority of each thread of Java. Later threads, and workers, inherit it."""
    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return  # Java began this process
    lowered: set[str] = set()
    with suppress(OSError):  # not Linux, or Java has ended
        while left := set(os.listdir(f"/proc/{process.pid}/task")) - lowered:
            for thread in left:
                with suppress(ProcessLookupError):
                    os.setpriority(os.PRIO_PROCESS, int(thread), max(_NICE, os.getpriority(os.PRIO_PROCESS, 0)))
            lowered |= left


def start_session(build: Callable[[str], SparkSession], files: StartFiles) -> SparkSession:
    """A session, which `build` makes with options of Java; without the archives, if Java dies with them."""
    if not files.classes:
        return build("")
    try:
        return build(files.java_options)
    except _START_ERRORS as error:
        if not _is_java_dead():
            raise
        try:
            spark = build("")
        except _START_ERRORS:
            # It was not the archives.
            raise error from None
    set_aside(files)
    return spark


def _is_java_dead() -> bool:
    """If so, the next session of this process starts another one."""
    gateway = SparkContext._gateway
    if gateway is not None:
        try:
            gateway.proc.wait(_DEATH_S)
        except subprocess.TimeoutExpired:
            return False
        gateway.shutdown()
        SparkContext._gateway = SparkContext._jvm = None
    return True


def _build(name: str, chosen: Mapping[str, str], java_options: str) -> SparkSession:
    builder = SparkSession.builder.appName(name)
    for key, value in chosen.items():
        builder = builder.config(key, f"{value} {java_options}".strip() if key == _JAVA_OPTIONS else value)
    return builder.getOrCreate()


def _remote_session(remote: str, master: str | None, settings: Mapping[str, str], say: Say) -> SparkSession:
    """SettingsError: an option is the server's to set, or a session of this process is in the way."""
    if not remote.startswith("sc://"):
        raise SettingsError(f"remote {remote!r} is no server of Spark Connect; right would be sc://HOST:PORT")
    if master is not None or "spark.master" in settings:
        given = settings.get("spark.master", master)
        raise SettingsError(f"master {given!r} does not go with remote: the server at {remote} has its master already")
    missing = [package for package, module in _CONNECT.items() if not _is_installed(module)]
    if missing:
        raise SettingsError(
            f"Spark Connect needs {', '.join(missing)}, which are not installed; install them with: "
            f'pip install "holdfast[spark,connect]"'
        )
    if SparkContext._active_spark_context is not None:
        raise SettingsError(
            f"this process runs a Spark already, and cannot use the one at {remote} besides: stop it, or begin another "
            f"process"
        )
    say(f"connecting to {remote}")
    spark = SparkSession.builder.remote(remote).getOrCreate()
    for key, value in {**_RUNTIME, **settings}.items():
        if spark.conf.isModifiable(key):
            spark.conf.set(key, value)
        elif key in settings:
            raise SettingsError(
                f"settings {key}: only the server at {remote} can set it, when it is started (--conf {key}={value})"
            )
    spark.dataSource.register(HoldfastSource)
    return spark


def is_remote(spark: SparkSession) -> bool:
    """Whether queries of a session are planned on another machine, by a server of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that it lies in
        return False


@contextmanager
def _start_environment(files: StartFiles) -> Iterator[None]:
    """Variables for Java and its workers alone: programs that this one starts later are not told."""
    own = {"SPARK_LAUNCHER_OPTS": _LAUNCHER_OPTIONS} | ({} if files.home is None else {"SPARK_HOME": str(files.home)})
    own = {name: text for name, text in own.items() if name not in os.environ}
    os.environ.update(own)
    try:
        yield
    finally:
        for name in own:
            os.environ.pop(name, None)


def _is_here(chosen: Mapping[str, str]) -> bool:
    """Whether Spark runs on this machine alone."""
    return chosen.get("spark.master", "").startswith("local")


def _chosen(master: str | None, settings: Mapping[str, str]) -> dict[str, str]:
    # Under spark-submit Java runs already, and has its master.
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    chosen = {} if submitted else {"spark.master": master or _HERE}
    chosen |= {**_RUNTIME, **_STATIC, **settings}
    if master is not None:
        chosen["spark.master"] = master
    if _is_here(chosen):
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
        chosen.setdefault("spark.driver.host", _LOOPBACK)
        chosen.setdefault("spark.driver.bindAddress", _LOOPBACK)
        # Spark's 200 are meant for a cluster.
        chosen.setdefault("spark.sql.shuffle.partitions", str(max(2, os.cpu_count() or 2)))
    return chosen
