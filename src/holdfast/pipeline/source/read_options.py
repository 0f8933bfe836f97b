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
from typing import Final

from holdfast.history.tables.tables import QUEUES, RETAINED, SCHEMAS
from holdfast.model.errors import PeerError, PermanentError, SettingsError
from holdfast.pipeline.source.offsets import EARLIEST, LATEST, parse_offsets
from holdfast.pipeline.source.schema import DEFAULT_COLUMNS, HISTORY, JSON, check_columns
from holdfast.pipeline.spark.option_texts import (
    OptionTable,
    name_options,
    option_errors,
    parse_boolean,
    parse_options,
    strip_file_scheme,
)
from holdfast.storage.rocks.log.leases import check_name
from holdfast.topics.filters import parse_filter
from holdfast.topics.since import parse_since

#: What stands around them is for people, or a key, which is nobody else's.
_CERTIFICATE: Final = re.compile(rb"-----BEGIN ((?:X509 |TRUSTED )?CERTIFICATE)-----.*?-----END \1-----", re.DOTALL)
_OF_ENDPOINTS: Final = ("token", "tokenFile", "ca")
#: What the other tables than history know; some know one thing more.
_OF_TABLES: Final = ("path", "endpoint", *_OF_ENDPOINTS, "table", "columns")
_OF_TABLE: Final = {RETAINED: ("topicFilter",), QUEUES: ("owed",)}


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
    texts = name_options(given, _OPTIONS, "there is no option {}; there are {}")
    if bool(texts.get("path")) == bool(texts.get("endpoint")):
        raise SettingsError(
            "give either the option path, a broker's data folder on this machine, or endpoint, grpc://host:port"
        )
    for name in _OF_ENDPOINTS:
        if name in texts and texts.get("path"):
            raise SettingsError(f"option {name}: it goes with the option endpoint; a path is read without")
    for name, other in (("token", "tokenFile"), ("startingTime", "startingOffsets")):
        if name in texts and other in texts:
            raise SettingsError(f"give either the option {name} or {other}")
    fields = parse_options(texts, _OPTIONS)
    with_json = fields.pop(JSON, False)
    table = fields.setdefault("table", HISTORY)
    _check_meaning(table, texts)
    columns = fields.setdefault("columns", DEFAULT_COLUMNS if table == HISTORY else tuple(SCHEMAS[table].names))
    with option_errors("columns"):
        check_columns(table, columns)
    if with_json and JSON not in columns:
        fields["columns"] = (*columns, JSON)
    return ReadOptions(**fields)


def _check_meaning(table: str, texts: Mapping[str, str]) -> None:
    for name in texts:
        if table == HISTORY and name == "owed":
            raise SettingsError(f"option owed: it is for the table {QUEUES}")
        if table != HISTORY and name not in (*_OF_TABLES, *_OF_TABLE.get(table, ())):
            known = ", ".join((*_OF_TABLES, *_OF_TABLE.get(table, ())))
            raise SettingsError(f"option {name}: it means nothing for the table {table}, which knows {known}")


def _path(text: str) -> str:
    path = strip_file_scheme(text)
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
    return tuple(name.strip() for name in text.split(","))


def _either(chosen: str, other: str, listed: str) -> Callable[[str], bool]:
    def parse(text: str) -> bool:
        if text not in (chosen, other):
            raise ValueError(f"{text!r} is not known; give {listed}")
        return text == chosen

    return parse


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


def _authorities(text: str) -> bytes:
    """The certificates of a file, or of what stands in one: a server of Spark Connect has no files of its clients."""
    is_content = "-----BEGIN" in text and "\n" in text
    content = text.encode() if is_content else _content(text)
    found = [match[0] + b"\n" for match in _CERTIFICATE.finditer(content)]
    if not found:
        raise ValueError(
            f"{'the text' if is_content else text} holds no certificate in PEM, which begins with -----BEGIN "
            "CERTIFICATE-----; of one in DER makes it: openssl x509 -inform der -in FILE"
        )
    return b"".join(found)


def _content(text: str) -> bytes:
    try:
        return Path(text).read_bytes()
    except OSError as wrong:
        raise ValueError(f"{text} cannot be read: {wrong.strerror}") from None


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise ValueError(f"{text!r} is not a number of messages; give 1 or more")
    return int(text)


_OPTIONS: Final[OptionTable] = {
    "path": ("path", _path),
    "endpoint": ("endpoint", str),
    "table": ("table", _table),
    "topicFilter": ("levels", _levels),
    "startingTime": ("starting_time", _time),
    "endingTime": ("ending_time", _time),
    "startingOffsets": ("starting_offsets", _offsets),
    "columns": ("columns", _columns),
    "zone": ("zone", str),
    "payloadFormat": (JSON, _either("json", "binary", "json or binary")),
    "maxRowsPerTrigger": ("max_rows_per_trigger", _count),
    "rowsPerPartition": ("rows_per_partition", _count),
    "failOnDataLoss": ("fail_on_data_loss", parse_boolean),
    "pushdown": ("pushdown", parse_boolean),
    "owed": ("exact", _either("exact", "estimate", "estimate or exact")),
    "lease": ("lease", _lease),
    "inStep": ("in_step", parse_boolean),
    "token": ("token", _token),
    "tokenFile": ("token", _token_file),
    "ca": ("ca", _authorities),
}
