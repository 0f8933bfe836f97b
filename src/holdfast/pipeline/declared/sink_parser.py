"""The sinks of a declaration.

A sink that publishes what the source would read again makes a loop, in which one message becomes endlessly many. That
is refused, as far as it can be seen in the file; messages of other publishers are not checked.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from holdfast.model.errors import PeerError, SettingsError
from holdfast.pipeline.declared.declaration import DeltaSink, PublishSink, join_names
from holdfast.pipeline.declared.toml_fields import Mistakes, TomlFields, expression, one_of
from holdfast.pipeline.sink.write_options import OPTION_FIELDS, WriteOptions, parse_write_options
from holdfast.topics.names import check_topic_name

_OF_WRITER: Final = tuple(name for name in OPTION_FIELDS if name not in ("order_by", "ledger", "summary_file"))
_FILES: Final = ("password_file", "ca_file", "cert_file", "key_file")
_KEYS: Final = {
    "delta": ("kind", "of", "path"),
    "publish": ("kind", "of", "topic", "payload", "allow_loop", *_OF_WRITER),
}
_BRACES: Final = re.compile(r"\{([^{}]*)\}")
_OPTION: Final = re.compile(r"option (\w+): (.*)", re.DOTALL)


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


def _check_writer(fields: TomlFields, options: dict[str, str]) -> WriteOptions | None:
    if "broker" not in options:
        fields.lacks("broker", 'broker = "mqtt://127.0.0.1:1883"')
        return None
    try:
        chosen = parse_write_options(options)
    except SettingsError as error:
        found = _OPTION.fullmatch(str(error))
        key = next((key for key in options if found and key.replace("_", "") == found[1].lower()), "broker")
        fields.wrong(key, f"{key}: {found[2]}" if found else str(error))
        return None
    if chosen.qos == 0:
        fields.wrong("qos", "qos = 0: each row is published once, which takes 1 or 2")
    return chosen
