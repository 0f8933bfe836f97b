"""The source, the decoder and the rules of a declaration."""

import re
from pathlib import Path
from typing import Final

from holdfast.model.errors import PeerError
from holdfast.pipeline.declared.declaration import (
    ALSO_READ,
    BASE,
    DECODE,
    SPARKPLUG,
    TYPES,
    DeclaredRule,
    DeclaredSource,
    DecodedColumn,
    DecodeSpec,
    OnFail,
    PayloadFormat,
)
from holdfast.pipeline.declared.toml_fields import Mistakes, TomlFields, expression, name, one_of
from holdfast.topics.filters import parse_filter
from holdfast.topics.since import parse_since

_ENDPOINT: Final = re.compile(r"grpc(s|\+tls)?://(\[[0-9a-fA-F:]+\]|[^/:@\s]+):\d{1,5}")
_PATH: Final = re.compile(r"""\$((\.[A-Za-z_][A-Za-z0-9_]*)|(\[\d{1,9}\])|(\['[^'\\]+'\])|(\["[^"\\]+"\]))*""")
_COLUMN: Final = ("name", "path", "type", "level", "required")
#: MQTT allows no more.
_MOST_LEVELS: Final = 65_536


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
    form = fields.parsed(
        "format",
        one_of(PayloadFormat, [each.value for each in PayloadFormat]),
        PayloadFormat.TEXT,
        needed='format = "json"',
    )
    columns = []
    made = {
        PayloadFormat.NUMBER: ("value",),
        PayloadFormat.TEXT: ("value",),
        PayloadFormat.SPARKPLUG_B: tuple(SPARKPLUG),
    }.get(form, ())
    taken = {*BASE, *ALSO_READ, *made}
    for number, found in enumerate(fields.take("columns", list, [])):
        column = _column(fields.said, number, found, form)
        if column.name.lower() in taken:
            what = f"[decode]: there is a column {column.name} already; take another name"
            fields.said.say((*fields.place, "columns", number), what)
        taken.add(column.name.lower())
        columns.append(column)
    if form in (PayloadFormat.JSON, PayloadFormat.CBOR) and not columns and fields.has("format"):
        fields.lacks("columns", 'columns = [{ name = "celsius", type = "double" }]')
    return DecodeSpec(form, tuple(columns))


def _column(said: Mistakes, number: int, found: object, form: PayloadFormat) -> DecodedColumn:
    title = found.get("name") if isinstance(found, dict) else None
    fields = TomlFields(said, ("decode", "columns", number), found, f"[decode] column {title or number + 1}", _COLUMN)
    named = fields.parsed("name", name, f"column_{number}", needed='name = "celsius"')
    level = fields.take("level", int, 0)
    if fields.has("level"):
        if not 1 <= level <= _MOST_LEVELS:
            fields.wrong("level", f"level = {level}; levels of a topic are counted from 1")
        for key in ("path", "required"):
            if fields.has(key):
                fields.wrong(key, f"there are both level and {key}; {key} is for columns of the payload")
    elif form not in (PayloadFormat.JSON, PayloadFormat.CBOR):
        what = f"{form} has no parts; give level = 2, a level of the topic, or leave the column out"
        said.say(fields.place, f"{fields.title}: {what}")
    kind = fields.parsed("type", one_of(str, list(TYPES)), "string") if fields.has("type") else "string"
    path = fields.parsed("path", _path, "") if fields.has("path") else f"$.{named}"
    return DecodedColumn(named, kind, "" if level else path, level, fields.take("required", bool, False))


def read_rule(said: Mistakes, number: int, found: object) -> DeclaredRule:
    place = ("rule", number)
    title = found.get("name") if isinstance(found, dict) else None
    fields = TomlFields(said, place, found, f"[[rule]] {title or number + 1}", ("name", "where", "on_fail"))
    named = fields.parsed("name", name, f"rule_{number}", needed='name = "plausible"')
    if named == DECODE:
        fields.wrong("name", f"{DECODE} is the name under which undecodable messages are counted; take another one")
    where = fields.parsed(
        "where", expression, "", needed='a condition that good rows meet: where = "celsius BETWEEN -40 AND 125"'
    )
    on_fail = fields.parsed("on_fail", one_of(OnFail, [each.value for each in OnFail]), OnFail.QUARANTINE)
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
