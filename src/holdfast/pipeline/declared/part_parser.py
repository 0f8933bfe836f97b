"""The source, the decoder, the rules and the sinks of a declaration.

A sink that publishes what the source would read again makes a loop, in which one message becomes endlessly many. That
is refused, as far as it can be seen in the file; messages of other publishers are not checked.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from holdfast.model.errors import PeerError, SettingsError
from holdfast.pipeline.declared.declaration import (
    ALSO_READ,
    BASE,
    DECODE,
    TYPES,
    DeclaredRule,
    DeclaredSource,
    DecodedColumn,
    DecodeSpec,
    DeltaSink,
    OnFail,
    PayloadFormat,
    PublishSink,
    join_names,
)
from holdfast.pipeline.declared.toml_fields import Mistakes, TomlFields, expression, named_fields, one_of
from holdfast.pipeline.sink.write_options import OPTION_FIELDS, parse_write_options
from holdfast.topics.filters import parse_filter
from holdfast.topics.names import check_topic_name
from holdfast.topics.since import parse_since

_ENDPOINT: Final = re.compile(r"grpc(s|\+tls)?://(\[[0-9a-fA-F:]+\]|[^/:@\s]+):\d{1,5}")
_PATH: Final = re.compile(r"""\$((\.[A-Za-z_][A-Za-z0-9_]*)|(\[\d{1,9}\])|(\['[^'\\]+'\])|(\["[^"\\]+"\]))*""")
_COLUMN: Final = ("name", "path", "type", "level", "required")
_RULE: Final = ("name", "where", "on_fail")
#: MQTT allows no more.
_MOST_LEVELS: Final = 65_536
SOURCE_KEYS: Final = ("data", "endpoint", "topic", "since", "zone", "token_file", "ca", "accept_loss")
_OF_WRITER: Final = tuple(name for name in OPTION_FIELDS if name not in ("order_by", "ledger", "summary_file"))
_FILES: Final = ("password_file", "ca_file", "cert_file", "key_file")
_KEYS: Final = {
    "delta": ("kind", "of", "path"),
    "publish": ("kind", "of", "topic", "payload", "allow_loop", *_OF_WRITER),
}
_BRACES: Final = re.compile(r"\{([^{}]*)\}")
_OPTION: Final = re.compile(r"option (\w+): (.*)", re.DOTALL)


def read_source(fields: TomlFields, folder: Path, title: str) -> DeclaredSource:
    """As options of the data source."""
    data, endpoint = fields.text("data"), fields.parsed("endpoint", _endpoint, "")
    if fields.place and not fields.has("data") and not fields.has("endpoint"):
        fields.lacks("data or endpoint", 'data = "holdfast-data", or endpoint = "grpc://127.0.0.1:18815"')
    if fields.has("data") and fields.has("endpoint"):
        fields.wrong("endpoint", "there are both data and endpoint; give one of them")
    options = {"path": str(folder / data)} if data else {"endpoint": endpoint}
    options["lease"] = f"run-{title}"
    topic = fields.parsed("topic", _filter, "#")
    if topic != "#":
        options["topicFilter"] = topic
    if fields.has("since"):
        since = fields.parsed("since", _since, "earliest")
        if since in ("earliest", "latest"):
            options["startingOffsets"] = since
        else:
            options["startingTime"] = since
    if fields.has("zone"):
        options["zone"] = fields.text("zone")
    for key, option in (("token_file", "tokenFile"), ("ca", "ca")):
        if fields.has(key):
            if not fields.has("endpoint"):
                fields.wrong(key, f"{key} goes with endpoint; a folder is read without")
            options[option] = str(folder / fields.text(key))
    if fields.take("accept_loss", bool, False):
        options["failOnDataLoss"] = "false"
    return DeclaredSource(options)


def read_decode(fields: TomlFields) -> DecodeSpec:
    known = one_of(PayloadFormat, list(PayloadFormat))
    form = fields.parsed("format", known, PayloadFormat.TEXT, needed='format = "json"')
    columns = []
    taken = {*BASE, *ALSO_READ, *DecodeSpec(form).types()}
    for number, found in enumerate(fields.take("columns", list, [])):
        column = _column(fields.said, number, found, form)
        if column.name.lower() in taken:
            what = f"[decode]: there is a column {column.name} already; take another name"
            fields.said.append(((*fields.place, "columns", number), what))
        taken.add(column.name.lower())
        columns.append(column)
    if form in (PayloadFormat.JSON, PayloadFormat.CBOR) and not columns and fields.has("format"):
        fields.lacks("columns", 'columns = [{ name = "celsius", type = "double" }]')
    return DecodeSpec(form, tuple(columns))


def _column(said: Mistakes, number: int, found: object, form: PayloadFormat) -> DecodedColumn:
    place = ("decode", "columns", number)
    fields, named = named_fields(said, place, found, "[decode] column", _COLUMN, "column", 'name = "celsius"')
    level = fields.take("level", int, 0)
    if fields.has("level"):
        if not 1 <= level <= _MOST_LEVELS:
            fields.wrong("level", f"level = {level}; levels of a topic are counted from 1")
        for key in ("path", "required"):
            if fields.has(key):
                fields.wrong(key, f"there are both level and {key}; {key} is for columns of the payload")
    elif form not in (PayloadFormat.JSON, PayloadFormat.CBOR):
        what = f"{form} has no parts; give level = 2, a level of the topic, or leave the column out"
        said.append((fields.place, f"{fields.title}: {what}"))
    kind = fields.parsed("type", one_of(str, list(TYPES)), "string") if fields.has("type") else "string"
    path = fields.parsed("path", _path, "") if fields.has("path") else f"$.{named}"
    return DecodedColumn(named, kind, "" if level else path, level, fields.take("required", bool, False))


def read_rule(said: Mistakes, number: int, found: object) -> DeclaredRule:
    place = ("rule", number)
    fields, named = named_fields(said, place, found, "[[rule]]", _RULE, "rule", 'name = "plausible"')
    if named == DECODE:
        fields.wrong("name", f"{DECODE} is the name under which undecodable messages are counted; take another one")
    where = fields.parsed(
        "where", expression, "", needed='a condition that good rows meet: where = "celsius BETWEEN -40 AND 125"'
    )
    on_fail = fields.parsed("on_fail", one_of(OnFail, list(OnFail)), OnFail.QUARANTINE)
    return DeclaredRule(named, where, on_fail, place)


def _endpoint(text: str) -> str:
    if not _ENDPOINT.fullmatch(text):
        raise ValueError("give grpc://HOST:PORT, or grpc+tls://HOST:PORT")
    return text


def _filter(text: str) -> str:
    try:
        found = parse_filter(text.encode())
    except PeerError as error:
        raise ValueError(error.detail) from None
    if found.group or found.since:
        raise ValueError("there is a group or a start in it; give a plain filter, and since")
    return text


def _since(text: str) -> str:
    if text in ("earliest", "latest"):
        return text
    try:
        parse_since(text)
    except PeerError:
        raise ValueError("give earliest, latest, 2026-07-01T00:00:00Z, Unix microseconds, or -2h") from None
    return text


def _path(text: str) -> str:
    if not _PATH.fullmatch(text):
        raise ValueError("give a path such as $.celsius, $.sensor.values[0] or $['two words']")
    return text


# ---- sinks


def read_sinks(
    said: Mistakes, found: Sequence[object], columns: Mapping[str, Sequence[str]], folder: Path, source_filter: str
) -> tuple[list[DeltaSink], list[PublishSink]]:
    tables: list[DeltaSink] = []
    publishes: list[PublishSink] = []
    for number, each in enumerate(found):
        kind = each.get("kind") if isinstance(each, dict) else None
        known = _KEYS.get(kind if isinstance(kind, str) else "", (*_KEYS["delta"], *_KEYS["publish"][2:]))
        fields = TomlFields(said, ("sink", number), each, f"[[sink]] {number + 1}", known)
        chosen = fields.parsed("kind", one_of(str, list(_KEYS)), "", needed='kind = "delta" or kind = "publish"')
        of = fields.parsed("of", one_of(str, list(columns)), "", needed=f"of = {join_names(list(columns))}")
        if chosen == "delta":
            tables.append(_delta(fields, of, folder, tables))
        elif chosen == "publish":
            publishes.append(_publish(fields, of, columns.get(of, ()), folder, source_filter))
    return tables, publishes


def _delta(fields: TomlFields, of: str, folder: Path, others: Sequence[DeltaSink]) -> DeltaSink:
    text = fields.text("path", needed=f'a folder, such as path = "lake/{of or "rows"}"')
    if "://" in text:
        fields.wrong("path", f"path = {text!r}: give a folder, which all of Spark's machines see under this name")
    sink = DeltaSink(of, folder / text)
    if text and any(sink.path == other.path for other in others):
        fields.wrong("path", f"path = {text!r}: another sink writes there; give each its own folder")
    if of and any(of == other.of for other in others):
        fields.wrong("of", f"{of} goes into a table already; one is enough, anybody may read it")
    return sink


def _publish(fields: TomlFields, of: str, columns: Sequence[str], folder: Path, source_filter: str) -> PublishSink:
    topic = fields.text("topic", needed='topic = "stats/{hall}", with columns in braces')
    if topic and of:
        _check_topic(fields, topic, columns, source_filter)
    options = {}
    for key in _OF_WRITER:
        if fields.has(key):
            value: Any = fields.raw(key)
            if not isinstance(value, str | int):
                fields.wrong(key, f"{key} has to be a text or a number")
                continue
            text = str(value).lower() if isinstance(value, bool) else str(value)
            options[key] = str(folder / text) if key in _FILES else text
    _check_writer(fields, options)
    payload = fields.parsed("payload", expression, "") if fields.has("payload") else None
    number = fields.place[-1]
    return PublishSink(of, f"publish_{number}", topic, payload, options, fields.place)


def _check_topic(fields: TomlFields, topic: str, columns: Sequence[str], source_filter: str) -> None:
    for used in _BRACES.findall(topic):
        if used not in columns:
            fields.wrong("topic", f"topic = {topic!r}: there is no column {used!r}; there are {', '.join(columns)}")
    try:
        check_topic_name(_BRACES.sub("x", topic).encode())
    except PeerError as error:
        fields.wrong("topic", f"topic = {topic!r}: {error.detail}")
    if may_match(topic, source_filter) and not fields.take("allow_loop", bool, False):
        fields.wrong(
            "topic",
            f"topic = {topic!r} may match the topic of [source], {source_filter!r}: what is published there would be "
            f"read again and again; publish elsewhere, or give [source] a narrower topic. If this is another broker, "
            f"give allow_loop = true",
        )


def may_match(topic: str, source_filter: str) -> bool:
    """Whether a topic with columns in braces can match a filter. A column may have any number of levels in it."""
    levels = topic.split("/")
    for number, wanted in enumerate(source_filter.split("/")):
        if wanted == "#" or (number < len(levels) and "{" in levels[number]):
            return True
        if number >= len(levels) or wanted not in ("+", levels[number]):
            return False
    return len(levels) == len(source_filter.split("/"))


def _check_writer(fields: TomlFields, options: dict[str, str]) -> None:
    if "broker" not in options:
        fields.lacks("broker", 'broker = "mqtt://127.0.0.1:1883"')
        return
    try:
        if parse_write_options(options).qos == 0:
            fields.wrong("qos", "qos = 0: each row is published once, which takes 1 or 2")
    except SettingsError as error:
        found = _OPTION.fullmatch(str(error))
        key = next((key for key in options if found and key.replace("_", "") == found[1].lower()), "broker")
        fields.wrong(key, f"{key}: {found[2]}" if found else str(error))
