"""Typed access to one table of a TOML file: a mistake is noted with its place, and reading goes on.

So five mistakes in a file are reported together. An unknown key is a mistake.
"""

import difflib
import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final, TypeVar

from holdfast.pipeline.declared.declaration import join_names
from holdfast.pipeline.declared.toml_lines import Path

_T = TypeVar("_T")
_DURATION: Final = re.compile(r"([1-9]\d{0,8})(ms|s|m|h|d)")
_UNITS: Final = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_CHANGING: Final = re.compile(
    r"\b(now|current_timestamp|current_date|curdate|current_time|localtimestamp|rand|randn|random|uuid|shuffle|"
    r"monotonically_increasing_id|spark_partition_id|input_file_name)\b(?!\s*\.)|\bunix_timestamp\s*\(\s*\)",
    re.IGNORECASE,
)
_KINDS: Final = {str: "a text", int: "a whole number", bool: "true or false", list: "a list", dict: "a table"}


#: What is wrong, each with its place in the file.
Mistakes = list[tuple[Path, str]]


class TomlFields:
    """A table of the file. `title` is how a person knows it, such as `[[rule]] warm`."""

    def __init__(self, said: Mistakes, place: Path, found: object, title: str, known: Sequence[str]) -> None:
        self.said: Final = said
        self.place: Final = place
        self.title: Final = title
        if not isinstance(found, dict):
            said.append((place, f"{title} is {_kind(found)}; it has to be a table"))
        self._found: Final[dict[str, Any]] = found if isinstance(found, dict) else {}
        for key in self._found:
            if key not in known:
                near = difflib.get_close_matches(key, known, 1)
                hint = f"did you mean {near[0]}?" if near else f"there are {join_names(known, 'and')}"
                said.append(((*place, key), f"{title} has no {key}; {hint}"))

    def has(self, key: str) -> bool:
        return key in self._found

    def raw(self, key: str) -> Any:
        return self._found.get(key)

    def wrong(self, key: str, what: str) -> None:
        self.said.append(((*self.place, key), f"{self.title}: {what}"))

    def lacks(self, key: str, example: str) -> None:
        self.said.append((self.place, f"{self.title} needs {key}; give {example}"))

    def take(self, key: str, kind: type[_T], default: _T, *, needed: str = "") -> _T:
        """The value, or the default. `needed` is an example to show if there is none."""
        if key not in self._found:
            if needed:
                self.lacks(key, needed)
            return default
        value = self._found[key]
        # To Python, true is a number.
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            self.wrong(key, f"{key} is {_kind(value)}; it has to be {_KINDS[kind]}")
            return default
        return value

    def text(self, key: str, default: str = "", *, needed: str = "") -> str:
        found = self.take(key, str, default, needed=needed)
        if self.has(key) and isinstance(self._found[key], str) and not found.strip():
            self.wrong(key, f"{key} is empty")
        return found

    def parsed(self, key: str, parse: Callable[[str], _T], default: _T, *, needed: str = "") -> _T:
        """What `parse` makes of a text; its ValueError says what would be right."""
        found = self.text(key, needed=needed)
        if not found.strip():
            return default
        try:
            return parse(found)
        except ValueError as error:
            self.wrong(key, f"{key} = {found!r}: {error}")
            return default

    def names(self, key: str, there: Sequence[str], *, needed: str = "") -> tuple[str, ...]:
        """A list of columns that have to be there."""
        found = self.take(key, list, [], needed=needed)
        for number, name in enumerate(found):
            if name not in there:
                what = f"{self.title}: there is no column {name!r}; there are {', '.join(there)}"
                self.said.append(((*self.place, key, number), what))
        return tuple(name for name in found if name in there)

    def tables(self, key: str) -> list[object]:
        """An array of tables."""
        return self.take(key, list, [])


def named_fields(
    said: Mistakes, place: Path, found: object, kind: str, known: Sequence[str], default: str, example: str
) -> tuple[TomlFields, str]:
    """A table of several of its kind, with its name; the default, if the name is missing or wrong."""
    title = found.get("name") if isinstance(found, dict) else None
    number = place[-1]
    fields = TomlFields(said, place, found, f"{kind} {title or int(number) + 1}", known)
    return fields, fields.parsed("name", name, f"{default}_{number}", needed=example)


def expression(text: str) -> str:
    """An expression of SQL. ValueError if its result is not deterministic; Spark checks the rest."""
    found = _CHANGING.search(re.sub(r"'[^']*'", "''", text))
    if found:
        raise ValueError(f"{found[0]} gives another answer when a batch is repeated; use columns, such as ts")
    return text


def duration(text: str) -> str:
    """A duration as Spark writes it. ValueError if it is not one."""
    found = _DURATION.fullmatch(text)
    if not found:
        raise ValueError("give a time such as 500ms, 30s, 5m, 1h or 2d")
    return f"{found[1]} {_UNITS[found[2]]}"


def duration_ms(text: str) -> int:
    """The milliseconds of a text that `duration` returned."""
    number, unit = text.split(" ")
    return timedelta(**{unit: int(number)}) // timedelta(milliseconds=1)


def name(text: str) -> str:
    """ValueError if it cannot be the name of a column or a table."""
    if not _NAME.fullmatch(text):
        raise ValueError("use up to 64 letters, digits and '_', and no digit in front")
    return text


def one_of(kind: Callable[[str], _T], known: Sequence[str]) -> Callable[[str], _T]:
    def parse(text: str) -> _T:
        if text not in known:
            raise ValueError(f"give {join_names(list(known))}")
        return kind(text)

    return parse


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return next((text for kind, text in _KINDS.items() if isinstance(value, kind)), f"{value!r}")
