"""Options of a reader of history, as Spark passes them: texts by name, in any case.

    path | endpoint      where from                          topicFilter       MQTT wildcards
    table                history, or one of `tables.py`      startingTime      as a replay's start: ISO 8601, µs, -2h
    columns              names with commas                   endingTime        the same, exclusive
    zone                 one zone alone                      startingOffsets   earliest, latest, offsets of a stream
    payloadFormat        json: a column of that name         maxRowsPerTrigger messages a batch of a stream takes
    rowsPerPartition     how finely to cut                   failOnDataLoss    what retention took: an error, or a gap
    pushdown             use a query's own conditions        owed              of queues: estimate, or exact
    lease                what a stream has not read is kept  ca                a file: whom to trust, for TLS
    token | tokenFile    for an endpoint that wants one      inStep            a batch ends at one time in all shards

Everything is checked at once, so a wrong option fails before anything is started, and the error names it. An option
that does not exist fails too: a filter with a typing error in its name would read everything. So does one that means
nothing for the table that is read.

Files are read where the query is made, and their content is sent to the workers.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from holdfast.history.tables.tables import QUEUES, RETAINED, SCHEMAS
from holdfast.model.errors import PeerError, PermanentError, SettingsError
from holdfast.pipeline.source.offsets import EARLIEST, LATEST, parse_offsets
from holdfast.pipeline.source.schema import DEFAULT_COLUMNS, JSON, check_columns, check_table_columns
from holdfast.storage.rocks.log.leases import check_name
from holdfast.topics.filters import parse_filter
from holdfast.topics.since import parse_since

HISTORY: Final = "history"
_NAMES: Final = (
    "path",
    "endpoint",
    "table",
    "topicFilter",
    "startingTime",
    "endingTime",
    "startingOffsets",
    "columns",
    "zone",
    "payloadFormat",
    "maxRowsPerTrigger",
    "rowsPerPartition",
    "failOnDataLoss",
    "pushdown",
    "owed",
    "lease",
    "inStep",
    "token",
    "tokenFile",
    "ca",
)
_OF_ENDPOINTS: Final = ("token", "tokenFile", "ca")
#: What the other tables than history know; some know one thing more.
_OF_TABLES: Final = ("path", "endpoint", *_OF_ENDPOINTS, "table", "columns")
_OF_TABLE: Final = {RETAINED: ("topicFilter",), QUEUES: ("owed",)}
#: Spark's own, which it passes on to every source.
_FOREIGN: Final = ("__", "spark.")
_T = TypeVar("_T")


@dataclass(frozen=True)
class ReadOptions:
    """Valid, and fit to be sent to a worker."""

    path: str = ""
    endpoint: str = ""
    table: str = HISTORY
    #: Of the filter; none means every topic, `$`-topics too.
    levels: tuple[bytes, ...] = ()
    #: None: not given. A time may be relative, so it is resolved where it is used.
    starting_time: str | None = None
    ending_time: str | None = None
    starting_offsets: str = EARLIEST
    columns: tuple[str, ...] = DEFAULT_COLUMNS
    zone: str | None = None
    #: None: no limit.
    max_rows_per_trigger: int | None = None
    #: None: as many as make good tasks.
    rows_per_partition: int | None = None
    fail_on_data_loss: bool = True
    #: See `pushdown.py` for why it is not the default.
    pushdown: bool = False
    #: Whether what queues owe is counted one by one.
    exact: bool = False
    lease: str | None = None
    in_step: bool = False
    #: Never shown.
    token: str | None = field(default=None, repr=False)
    ca: bytes | None = field(default=None, repr=False)

    def since_us(self, now_us: int) -> int:
        return 0 if self.starting_time is None else parse_since(self.starting_time).resolve(now_us)

    def until_us(self, now_us: int) -> int | None:
        """None: no end."""
        return None if self.ending_time is None else parse_since(self.ending_time).resolve(now_us)


def parse_read_options(given: Mapping[str, str]) -> ReadOptions:
    """SettingsError names the option that is wrong, and says what would be right."""
    texts = _by_name(given)

    def take(name: str, parse: Callable[[str], _T], default: _T) -> _T:
        try:
            return parse(texts[name]) if name in texts else default
        except PeerError as wrong:
            raise SettingsError(f"option {name}: {wrong.detail}") from None
        except ValueError as wrong:
            raise SettingsError(f"option {name}: {wrong}") from None

    path, endpoint = take("path", _path, ""), texts.get("endpoint", "")
    if bool(path) == bool(endpoint):
        raise SettingsError(
            "give either the option path, a broker's data folder on this machine, or endpoint, grpc://host:port"
        )
    for name in _OF_ENDPOINTS:
        if name in texts and path:
            raise SettingsError(f"option {name}: it goes with the option endpoint; a path is read without")
    if "token" in texts and "tokenFile" in texts:
        raise SettingsError("give either the option token or tokenFile")
    token = take("tokenFile", _token_file, take("token", _token, None))
    ca = take("ca", _content, None)
    table = take("table", _table, HISTORY)
    _check_meaning(table, texts)
    if table != HISTORY:
        return ReadOptions(
            path=path,
            endpoint=endpoint,
            table=table,
            levels=take("topicFilter", _levels, ()),
            columns=take("columns", lambda text: _table_columns(table, text), tuple(SCHEMAS[table].names)),
            exact=take("owed", _owed, False),
            token=token,
            ca=ca,
        )
    columns = take("columns", _columns, DEFAULT_COLUMNS)
    if take("payloadFormat", _payload_format, "") and JSON not in columns:
        columns = (*columns, JSON)
    if "startingTime" in texts and "startingOffsets" in texts:
        raise SettingsError("give either the option startingTime or startingOffsets")
    return ReadOptions(
        path=path,
        endpoint=endpoint,
        table=table,
        levels=take("topicFilter", _levels, ()),
        starting_time=take("startingTime", _time, None),
        ending_time=take("endingTime", _time, None),
        starting_offsets=take("startingOffsets", _offsets, EARLIEST),
        columns=columns,
        zone=texts.get("zone"),
        max_rows_per_trigger=take("maxRowsPerTrigger", _count, None),
        rows_per_partition=take("rowsPerPartition", _count, None),
        fail_on_data_loss=take("failOnDataLoss", _yes, True),
        pushdown=take("pushdown", _yes, False),
        lease=take("lease", _lease, None),
        in_step=take("inStep", _yes, False),
        token=token,
        ca=ca,
    )


def _by_name(given: Mapping[str, str]) -> dict[str, str]:
    # Both spellings are in use: Spark's own options have no underscores, its columns have.
    known = {name.lower(): name for name in _NAMES}
    texts = {}
    for key, value in given.items():
        name = known.get(key.lower().replace("_", ""))
        if name is not None:
            texts[name] = value
        elif not key.startswith(_FOREIGN):
            raise SettingsError(f"there is no option {key!r}; there are {', '.join(_NAMES)}")
    return texts


def _check_meaning(table: str, texts: Mapping[str, str]) -> None:
    for name in texts:
        if table == HISTORY and name == "owed":
            raise SettingsError(f"option owed: it is for the table {QUEUES}")
        if table != HISTORY and name not in (*_OF_TABLES, *_OF_TABLE.get(table, ())):
            known = ", ".join((*_OF_TABLES, *_OF_TABLE.get(table, ())))
            raise SettingsError(f"option {name}: it means nothing for the table {table}, which knows {known}")


def _path(text: str) -> str:
    found = re.match(r"file:(?://)?(/.*)", text)
    path = found[1] if found else text
    if "://" in path:
        raise ValueError(f"{text!r} is not a folder of this machine; to read from elsewhere, give endpoint")
    return path


def _table(text: str) -> str:
    if text != HISTORY and text not in SCHEMAS:
        raise ValueError(f"there is no table {text!r}; there are {', '.join((HISTORY, *SCHEMAS))}")
    return text


def _levels(text: str) -> tuple[bytes, ...]:
    found = parse_filter(text.encode())
    if found.group or found.since:
        raise ValueError(f"{text!r} has a group or a start in it; give a plain filter, and startingTime")
    return found.levels


def _time(text: str) -> str:
    try:
        parse_since(text)
    except PeerError:
        raise ValueError(
            f"{text!r} is no time; give ISO 8601 (2026-07-01T00:00:00Z), Unix microseconds, or -2h (s, m, h, d, w)"
        ) from None
    return text


def _offsets(text: str) -> str:
    if text not in (EARLIEST, LATEST):
        parse_offsets(text)
    return text


def _columns(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    check_columns(names)
    return names


def _table_columns(table: str, text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    check_table_columns(table, names)
    return names


def _owed(text: str) -> bool:
    if text not in ("estimate", "exact"):
        raise ValueError(f"{text!r} is not known; give estimate or exact")
    return text == "exact"


def _payload_format(text: str) -> str:
    if text not in ("json", "binary"):
        raise ValueError(f"{text!r} is not known; give json or binary")
    return "" if text == "binary" else text


def _lease(text: str) -> str:
    try:
        check_name(text)
    except PermanentError as wrong:
        raise ValueError(str(wrong)) from None
    return text


def _token(text: str) -> str:
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("this is no token; `holdfast token add` makes one")  # and is not shown
    return text


def _token_file(text: str) -> str:
    try:
        return _token(_content(text).decode().strip())
    except UnicodeDecodeError:
        raise ValueError(f"{text} does not hold a token; `holdfast token add` makes one") from None


def _content(text: str) -> bytes:
    try:
        return Path(text).read_bytes()
    except OSError as wrong:
        raise ValueError(f"{text} cannot be read: {wrong.strerror}") from None


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise ValueError(f"{text!r} is not a number of messages; give 1 or more")
    return int(text)


def _yes(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return text.lower() == "true"
