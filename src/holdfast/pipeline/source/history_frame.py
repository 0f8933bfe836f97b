"""History as a DataFrame, by a call instead of options; hot and cold as one, if there is a lake (`lake_reader.py`)."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame, SparkSession

from holdfast.files.token_file import TOKEN_PATTERN
from holdfast.model.errors import SettingsError
from holdfast.pipeline.source.data_source import NAME
from holdfast.pipeline.source.read_options import parse_read_options
from holdfast.pipeline.spark.session import is_remote

if TYPE_CHECKING:
    from holdfast.pipeline.lake.store import LakeAddress

#: A setting of a session: what Spark leaves out of the texts of plans that it shows.
_REDACTED: Final = "spark.sql.redaction.string.regex"


def history(
    spark: SparkSession,
    topic_filter: str | None = None,
    since: str | datetime | None = None,
    until: str | datetime | None = None,
    *,
    path: str | Path | None = None,
    endpoint: str | None = None,
    token: str | None = None,
    token_file: str | Path | None = None,
    ca: str | Path | None = None,
    columns: Sequence[str] | None = None,
    zone: str | None = None,
    lake: "LakeAddress | None" = None,
    fail_on_data_loss: bool = True,
) -> DataFrame:
    """Messages whose topic matches a filter, with since <= ts < until; only the columns that are named, if any are.

    From a data folder (`path`), or from a history process (`endpoint`, grpc://HOST:PORT) with its `token`, if it wants
    one, and the authorities to trust (`ca`, a file). A time is a datetime, or a text as `startingTime` takes it.

    With a `lake`, a folder or an address such as s3://BUCKET/PATH, what is archived there comes from there, and the
    rest from the log, each message once. If retention dropped some that no lake has, it is an error, unless it may be
    a gap.
    """
    chosen = {
        "path": path,
        "endpoint": endpoint,
        "token": token,
        "tokenFile": token_file,
        "ca": ca,
        "topicFilter": topic_filter,
        "startingTime": _time(since),
        "endingTime": _time(until),
        "columns": None if columns is None else ",".join(columns),
        "zone": zone,
    }
    given = {key: str(value) for key, value in chosen.items() if value is not None}
    # Here, where it is a sentence; Spark would wrap it in what its workers and Java say.
    parsed = parse_read_options(given)
    if is_remote(spark):
        if lake is not None:
            raise SettingsError("lake does not go with a session of Spark Connect; give session(master=…)")
        # A server of Spark Connect does not have the files of this machine.
        del chosen["tokenFile"]
        given = {key: text for key, text in given.items() if key in chosen}
        if parsed.token is not None:
            given["token"] = parsed.token
            _redact_tokens(spark)
        given |= {} if parsed.ca is None else {"ca": parsed.ca.decode()}
    if lake is None:
        return spark.read.format(NAME).options(**given).load()
    given["failOnDataLoss"] = str(fail_on_data_loss).lower()
    from holdfast.pipeline.lake.lake_reader import union_history  # Delta is loaded where there is a lake

    return union_history(spark, given, lake)


def _redact_tokens(spark: SparkSession) -> None:
    """A server of Spark Connect shows its plans, with the options in them, on its page and in its event log."""
    given = spark.conf.get(_REDACTED, "") or ""
    if TOKEN_PATTERN not in given:
        spark.conf.set(_REDACTED, f"{given}|{TOKEN_PATTERN}" if given else TOKEN_PATTERN)


def _time(moment: str | datetime | None) -> str | None:
    if isinstance(moment, datetime):
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()
    return moment
