"""The query of `GET /history`.

filter    a topic filter; `#` without one
since     earliest · latest · Unix µs · ISO 8601 · -2h          as in a replay; all without it
until     the same forms; not included
format    ndjson (default) · csv · parquet
columns   names with commas between them
zone      this zone only
limit     the most messages
"""

from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import parse_qs

from holdfast.durable.log import NO_END
from holdfast.history.arrow.file_columns import FileFormat
from holdfast.history.arrow.file_writer import default_columns
from holdfast.history.flight.protocol import parse_columns, parse_levels
from holdfast.model.errors import PeerError, PermanentError
from holdfast.topics.since import EARLIEST, parse_since

_FORMATS: Final = {
    "ndjson": FileFormat.JSONL,
    "jsonl": FileFormat.JSONL,
    "csv": FileFormat.CSV,
    "parquet": FileFormat.PARQUET,
}
_KEYS: Final = ("filter", "since", "until", "format", "columns", "zone", "limit")
_EVERYTHING: Final = "#"


class HttpQuery(NamedTuple):
    levels: tuple[bytes, ...]
    since_us: int
    until_us: int
    file_format: FileFormat
    columns: tuple[str, ...]
    zone: str | None
    limit: int | None


def parse_query(text: str, now_us: int) -> HttpQuery:
    """Parse a query; PermanentError says what is wrong, and what would be right."""
    given: Mapping[str, list[str]] = parse_qs(text, keep_blank_values=True, max_num_fields=50)
    for key, values in given.items():
        if key not in _KEYS:
            raise PermanentError(f"there is no parameter {key!r}; there are {', '.join(_KEYS)}")
        if len(values) > 1:
            raise PermanentError(f"{key} is given {len(values)} times; give it once")
    asked = {key: values[0] for key, values in given.items()}
    name = asked.get("format", "ndjson")
    if name not in _FORMATS:
        raise PermanentError(f"there is no format {name!r}; there are ndjson, csv and parquet")
    file_format = _FORMATS[name]
    columns = asked.get("columns")
    since_us = _time("since", asked.get("since", EARLIEST), now_us)
    until_us = _time("until", asked["until"], now_us) if "until" in asked else NO_END
    if since_us >= until_us:
        raise PermanentError(f"since ({since_us}) is not before until ({until_us})")
    return HttpQuery(
        parse_levels(asked.get("filter") or _EVERYTHING),
        since_us,
        until_us,
        file_format,
        default_columns(file_format) if columns is None else parse_columns(columns.split(",")),
        asked.get("zone"),
        _limit(asked.get("limit")),
    )


def _time(key: str, text: str, now_us: int) -> int:
    try:
        return parse_since(text).resolve(now_us)
    except PeerError as error:
        raise PermanentError(f"{key}: {error.detail}") from error


def _limit(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18 or not int(text):
        raise PermanentError(f"limit is {text!r}; it must be a whole number from 1 on")
    return int(text)
