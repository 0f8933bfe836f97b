"""Whether executors see a folder of the driver, asked before a job begins: those of a cluster run on other machines.

A data folder is read, and has an identity that is looked for. A folder that executors write to may be empty: there, a
file is looked for that was made for that.
"""

import secrets
import socket
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from holdfast.model.errors import SettingsError
from holdfast.pipeline.spark.errors import spark_errors

#: RocksDB's own name of a database, unlike that of any other.
_IDENTITY: Final = Path("rocks", "IDENTITY")
#: Of lakes and of states of pipelines: no reader looks into it.
_OWN: Final = "_holdfast"
_TASKS_EACH: Final = 4
READS: Final = "give --endpoint, the address of its history process, instead of --data"
WRITES: Final = "its tables are made there; give --master local[*] on the broker's machine"
SHARES: Final = "they would write to another; name a folder that all of them share, or, for a lake, a store of objects"


def is_local(spark: SparkSession) -> bool:
    """Whether Spark runs in this process's Java alone."""
    master = str(spark.sparkContext.master)
    return master == "local" or master.startswith("local[")


def check_executors_read(spark: SparkSession, source: Mapping[str, str]) -> None:
    """The same for options of the data source: an endpoint is reached from everywhere."""
    if "path" in source:
        check_executors_see(spark, Path(source["path"]), READS)


def check_executors_see(spark: SparkSession, folder: Path, advice: str) -> None:
    """SettingsError names the machines whose executors have another folder there, or none, and gives the advice."""
    if is_local(spark):
        return
    try:
        wanted = (folder / _IDENTITY).read_bytes()
    except FileNotFoundError:
        return  # the job says that there are no data
    _refuse_blind(spark, folder, folder / _IDENTITY, wanted, advice)


def check_executors_share(spark: SparkSession, folder: Path) -> None:
    """SettingsError names the machines whose executors would write to another folder; nothing is left in this one.

    Tasks make the folders that they write to: on a machine with another disk than the driver's they do not fail.
    """
    if is_local(spark):
        return
    own = folder / _OWN
    made = [one for one in (own, *own.parents) if not one.exists()]
    # Lakes and states have such a folder, so a file that a killed job leaves in it is in nobody's way.
    token, wanted = own / f"seen-{secrets.token_hex(8)}", secrets.token_bytes(16)
    try:
        _put(token, wanted)
        _refuse_blind(spark, folder, token, wanted, SHARES)
    finally:
        with suppress(OSError):
            token.unlink(missing_ok=True)
            for one in made:
                one.rmdir()


def _put(token: Path, content: bytes) -> None:
    try:
        token.parent.mkdir(parents=True, exist_ok=True)
        token.write_bytes(content)
    except OSError as error:
        raise SettingsError(
            f"{token.parent} cannot be written: {error.strerror}; name a folder that can be written"
        ) from error


def _refuse_blind(spark: SparkSession, folder: Path, file: Path, wanted: bytes, advice: str) -> None:
    """SettingsError if the file is another on some executor, or not there."""
    context = spark.sparkContext
    count = _TASKS_EACH * context.defaultParallelism
    with spark_errors():
        found = context.parallelize(range(count), count).map(partial(_look, file, wanted)).collect()
    blind = sorted({host for host, sees in found if not sees})
    if blind:
        raise SettingsError(
            f"{folder} is a folder of this machine, which executors of {context.master} cannot read "
            f"({', '.join(blind)}): {advice}"
        )


def _look(file: Path, wanted: bytes, _number: int) -> tuple[str, bool]:
    """In a worker."""
    try:
        return socket.gethostname(), file.read_bytes() == wanted
    except OSError:
        return socket.gethostname(), False
