"""Reads and checks `pipeline.toml`, without Spark. A mistake is reported with its line.

Whether an expression is valid SQL is checked by Spark when the pipeline runs (`expression_check.py`).
"""

import re
import tomllib
from pathlib import Path
from typing import Any, Final

from holdfast.model.errors import SettingsError
from holdfast.pipeline.declared.declaration import (
    BASE,
    DECODE,
    QUARANTINE,
    QUARANTINED,
    ROWS,
    WINDOW,
    AggregateSpec,
    Declaration,
    DeduplicateSpec,
    line_of,
)
from holdfast.pipeline.declared.part_parser import SOURCE_KEYS, read_decode, read_rule, read_sinks, read_source
from holdfast.pipeline.declared.toml_fields import (
    Mistakes,
    TomlFields,
    duration,
    duration_ms,
    expression,
    name,
    named_fields,
)
from holdfast.pipeline.declared.toml_lines import Path as Place
from holdfast.pipeline.declared.toml_lines import lines_of

_TOP: Final = ("name", "state", "batch", "source", "decode", "rule", "deduplicate", "aggregate", "sink")
_AT_LINE: Final = re.compile(r"(.*) \(at line (\d+), column \d+\)")
#: Messages of a batch, at most.
_BATCH_ROWS: Final = 1_000_000
#: More is no declaration.
_MOST_BYTES: Final = 1_000_000


class DeclarationError(SettingsError):
    """The file is wrong: one line of text for each mistake."""


def load(file: Path) -> Declaration:
    """DeclarationError says everything that is wrong, SettingsError that there is no such file."""
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise SettingsError(f"{file} cannot be read: {error.strerror}") from None
    if len(raw) > _MOST_BYTES:
        raise SettingsError(f"{file} has {len(raw):,} bytes; that is no declaration of a pipeline")
    try:
        text = raw.decode()
        found = tomllib.loads(text)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise DeclarationError(f"{file.name}:{line}: this is not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise DeclarationError(_toml_mistake(file, str(error), raw.count(b"\n") + 1)) from None
    lines = lines_of(text.replace("\r\n", "\n"))
    said: Mistakes = []
    declared = _read(file, found, lines, said)
    if said:
        placed = sorted((line_of(lines, place), what) for place, what in said)
        raise DeclarationError("\n".join(f"{file.name}:{line}: {what}" for line, what in placed))
    return declared


def _toml_mistake(file: Path, error: str, last_line: int) -> str:
    found = _AT_LINE.fullmatch(error)
    what, line = (found[1], int(found[2])) if found else (error.removesuffix(" (at end of document)"), last_line)
    return f"{file.name}:{line}: this is no TOML: {what}"


def _read(file: Path, found: dict[str, Any], lines: dict[Place, int], said: Mistakes) -> Declaration:
    folder = file.absolute().parent
    top = TomlFields(said, (), found, "the file", _TOP)
    title = top.parsed("name", name, "pipeline", needed='a name, such as name = "plant", in the first line')
    state = top.text("state", needed=f'a folder for how far it has come, such as state = "state/{title}"')
    batch_rows = top.take("batch", int, _BATCH_ROWS)
    if batch_rows < 1:
        top.wrong("batch", f"batch = {batch_rows}; give the messages of a batch, 1 or more")
    for key in ("source", "decode"):
        if not top.has(key):
            top.lacks(f"[{key}]", {"source": 'data = "holdfast-data"', "decode": 'format = "json"'}[key] + " in it")
    source = read_source(TomlFields(said, ("source",), found.get("source", {}), "[source]", SOURCE_KEYS), folder, title)
    decode = read_decode(TomlFields(said, ("decode",), found.get("decode", {}), "[decode]", ("format", "columns")))
    rules = tuple(read_rule(said, number, each) for number, each in enumerate(top.tables("rule")))
    _differ(said, "rule", [rule.name for rule in rules])
    rows = {**BASE, **decode.types()}
    deduplicate = None
    if top.has("deduplicate"):
        deduplicate = _deduplicate(
            TomlFields(said, ("deduplicate",), found["deduplicate"], "[deduplicate]", ("by", "within")), rows
        )
    aggregates = tuple(_aggregate(said, number, each, rows) for number, each in enumerate(top.tables("aggregate")))
    _differ(said, "aggregate", [each.name for each in aggregates])
    columns = {ROWS: list(rows), QUARANTINE: list(QUARANTINED)}
    columns |= {each.name: [*WINDOW, *each.by, *each.measures] for each in aggregates}
    _lead_somewhere(said, aggregates, top.tables("sink"))
    tables, publishes = read_sinks(said, top.tables("sink"), columns, folder, source.options.get("topicFilter", "#"))
    if not top.has("sink"):
        top.lacks("at least one [[sink]]", 'kind = "delta", of = "rows" and a path in it')
    return Declaration(
        file,
        title,
        folder / state,
        max(1, batch_rows),
        source,
        decode,
        rules,
        deduplicate,
        aggregates,
        tuple(tables),
        tuple(publishes),
        lines,
    )


#: Messages of different shards become durable in another order than that of their times, by as much as a sync takes.
_LEAST_WITHIN_MS: Final = 1_000


def _deduplicate(fields: TomlFields, rows: dict[str, str]) -> DeduplicateSpec:
    by = fields.names("by", list(rows), needed='columns that are equal in duplicates, such as by = ["topic", "seq"]')
    if fields.raw("by") == []:
        fields.wrong("by", "by is empty; name the columns that are equal in duplicates")
    within = fields.parsed("within", duration, "1 seconds", needed='a time, such as within = "10m"')
    if duration_ms(within) < _LEAST_WITHIN_MS:
        fields.wrong("within", f"within = {fields.raw('within')!r}; give 1s or more")
    return DeduplicateSpec(by, within)


#: Names of tables and steps that there are anyway.
_RESERVED: Final = (ROWS, QUARANTINE, DECODE, "accepted", "deduplicate")
_AGGREGATE: Final = ("name", "window", "slide", "by", "measures", "watermark", "time")


def _aggregate(said: Mistakes, number: int, found: object, rows: dict[str, str]) -> AggregateSpec:
    place = ("aggregate", number)
    example = 'a name, such as name = "per_minute"'
    fields, named = named_fields(said, place, found, "[[aggregate]]", _AGGREGATE, "aggregate", example)
    if named.lower() in _RESERVED:
        fields.wrong("name", f"{named} is the name of something else in a pipeline; take a different one")
    window = fields.parsed("window", duration, "1 minutes", needed='a time, such as window = "1m"')
    slide = fields.parsed("slide", duration, None) if fields.has("slide") else None
    if slide is not None and duration_ms(slide) > duration_ms(window):
        fields.wrong("slide", f"slide = {fields.raw('slide')!r} is longer than the window: rows between would be lost")
    watermark = fields.parsed(
        "watermark", duration, "0 seconds", needed='how late a row may be, such as watermark = "30s"'
    )
    time = fields.text("time", "ts")
    if rows.get(time) != "timestamp":
        there = ", ".join(key for key, kind in rows.items() if kind == "timestamp")
        fields.wrong("time", f"{time!r} is no column with times; there is {there}")
    by = fields.names("by", list(rows))
    measures = _measures(fields, (*WINDOW, *by))
    return AggregateSpec(named, window, by, measures, watermark, place, slide, time)


def _measures(fields: TomlFields, taken: tuple[str, ...]) -> dict[str, str]:
    example = 'measures = { readings = "count(*)", mean = "avg(celsius)" }'
    found = fields.take("measures", dict, {}, needed=example)
    if fields.raw("measures") == {}:
        fields.wrong("measures", f"measures is empty; give {example}")
    for key, text in found.items():
        place = (*fields.place, "measures", key)
        try:
            name(key)
            expression(str(text))
        except ValueError as error:
            fields.said.append((place, f"{fields.title}: {key!r}: {error}"))
        if key.lower() in (each.lower() for each in taken):
            fields.said.append((place, f"{fields.title}: there is a column {key} already; take another name"))
        if not isinstance(text, str) or not text.strip():
            fields.said.append((place, f"{fields.title}: {key} has to be an expression of SQL, such as avg(celsius)"))
    return {key: text for key, text in found.items() if isinstance(text, str)}


def _lead_somewhere(said: Mistakes, aggregates: tuple[AggregateSpec, ...], sinks: list[object]) -> None:
    used = [sink.get("of") for sink in sinks if isinstance(sink, dict)]
    for each in aggregates:
        if each.name not in used:
            what = f"[[aggregate]] {each.name} goes nowhere; add a [[sink]] with of = {each.name!r}, or leave it out"
            said.append((each.place, what))


def _differ(said: Mistakes, key: str, names: list[str]) -> None:
    for number, each in enumerate(names):
        if each.lower() in (other.lower() for other in names[:number]):
            said.append(((key, number, "name"), f"[[{key}]]: there are two of the name {each}; names have to differ"))
