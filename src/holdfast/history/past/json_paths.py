"""Places inside a JSON payload, and conditions on them.

    path        $   then   .name   ["name"]   [0]          $.engine.temp   $["a b"][0]   $
    condition   path operator value                        $.t >= 21.5     $.state = "on"    $ > 5
    operator    =  !=  <  <=  >  >=  contains
    value       a JSON value; anything else is a text without quotes

1. Numbers are compared with numbers and texts with texts; what cannot be compared does not match, also by `!=`.
2. `contains` looks for a text in a text, or for a value in a list.
3. A payload that is no JSON has no places: it matches nothing.
"""

import operator
import re
from collections.abc import Callable, Iterator
from itertools import zip_longest
from math import isfinite
from typing import Any, Final

import msgspec

from holdfast.history.past.questions import wrong_value

#: A name or an index, in the order of a path.
JsonPath = tuple[str | int, ...]

#: What a place has that is not there.
MISSING: Final = object()

_NAME: Final = re.compile(r"[^\W\d][\w-]*")
_INDEX: Final = re.compile(r"\[(\d{1,9})\]")
_QUOTED: Final = re.compile(r'\[("(?:[^"\\]|\\.)*")\]')
_OPERATOR: Final = re.compile(r"\s*(!=|<=|>=|=|<|>|contains\b)\s*")
_CONDITION: Final = re.compile(r"\$(?:[.\[]|\s*(?:[=<>]|!=|contains\b))")
_decode: Final = msgspec.json.Decoder().decode


def parse_path(text: str, parameter: str = "path") -> JsonPath:
    """A path that fills the whole text; 400 with the place where it stops being one."""
    path, end = _read_path(text, parameter)
    if end != len(text):
        raise _wrong(parameter, text, end, '.name, ["name"] or [0]')
    return path


def format_path(path: JsonPath) -> str:
    words = ["$"]
    for step in path:
        if isinstance(step, int):
            words.append(f"[{step}]")
        else:
            words.append(f".{step}" if _NAME.fullmatch(step) else f"[{msgspec.json.encode(step).decode()}]")
    return "".join(words)


def decode_payload(payload: bytes) -> Any:
    """The JSON value of a payload; MISSING if it is none."""
    try:
        return _decode(payload)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return MISSING


def value_at(value: Any, path: JsonPath) -> Any:
    """What lies at a path; MISSING if nothing does."""
    for step in path:
        if isinstance(step, int):
            if not isinstance(value, list) or step >= len(value):
                return MISSING
            value = value[step]
        elif not isinstance(value, dict) or step not in value:
            return MISSING
        else:
            value = value[step]
    return value


def number_of(value: Any) -> float | int | None:
    """A value that can be drawn; booleans are numbers here, 0 and 1."""
    if isinstance(value, bool):
        return int(value)
    return value if isinstance(value, int | float) and isfinite(value) else None


PayloadCheck = Callable[[bytes], bool]


def payload_check(text: str, parameter: str = "payload") -> PayloadCheck:
    """Whether a payload holds a text, or fulfils a condition; 400 with the place of what is wrong."""
    if not _CONDITION.match(text):
        wanted = text.encode()
        return lambda payload: wanted in payload
    path, end = _read_path(text, parameter)
    found = _OPERATOR.match(text, end)
    if found is None:
        raise _wrong(parameter, text, end, "an operator (= != < <= > >= contains)")
    if found.end() == len(text):
        raise _wrong(parameter, text, found.end(), "a value")
    return _condition(path, found[1], _value(text[found.end() :]))


def differing_paths(a: Any, b: Any, most: int) -> list[tuple[JsonPath, Any, Any]]:
    """The places at which two JSON values differ, at most so many, with what each has there."""
    found: list[tuple[JsonPath, Any, Any]] = []
    for one in _differing(a, b, ()):
        if len(found) == most:
            break
        found.append(one)
    return found


def _differing(a: Any, b: Any, path: JsonPath) -> Iterator[tuple[JsonPath, Any, Any]]:
    if isinstance(a, dict) and isinstance(b, dict):
        for name in dict.fromkeys([*a, *b]):
            yield from _differing(a.get(name, MISSING), b.get(name, MISSING), (*path, name))
    elif isinstance(a, list) and isinstance(b, list):
        for index, (one, other) in enumerate(zip_longest(a, b, fillvalue=MISSING)):
            yield from _differing(one, other, (*path, index))
    elif a != b or isinstance(a, bool) != isinstance(b, bool):
        yield path, a, b


def _read_path(text: str, parameter: str) -> tuple[JsonPath, int]:
    """The path that a text begins with, and where it ends."""
    if not text.startswith("$"):
        raise _wrong(parameter, text, 0, "$")
    path: list[str | int] = []
    at = 1
    while at < len(text) and text[at] in ".[":
        if text[at] == ".":
            name = _NAME.match(text, at + 1)
            if name is None:
                raise _wrong(parameter, text, at + 1, "a name")
            path.append(name[0])
            at = name.end()
        elif index := _INDEX.match(text, at):
            path.append(int(index[1]))
            at = index.end()
        elif quoted := _QUOTED.match(text, at):
            path.append(_quoted_name(quoted[1], text, at, parameter))
            at = quoted.end()
        else:
            raise _wrong(parameter, text, at + 1, "a number or a name in quotes, and ]")
    return tuple(path), at


def _quoted_name(quoted: str, text: str, at: int, parameter: str) -> str:
    try:
        return str(_decode(quoted))
    except msgspec.DecodeError:
        raise _wrong(parameter, text, at + 1, "a name in quotes as JSON has it") from None


def _value(text: str) -> Any:
    try:
        return _decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text.strip()


_ORDERS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _condition(path: JsonPath, name: str, wanted: Any) -> PayloadCheck:
    def check(payload: bytes) -> bool:
        found = value_at(decode_payload(payload), path)
        if found is MISSING:
            return False
        if name == "contains":
            if isinstance(found, str):
                return str(wanted) in found if not isinstance(wanted, str) else wanted in found
            return isinstance(found, list) and any(_same_kind(one, wanted) and one == wanted for one in found)
        if not _same_kind(found, wanted):
            return False
        if name not in ("=", "!=") and not isinstance(found, int | float | str):
            return False
        return _ORDERS[name](found, wanted)

    return check


def _same_kind(a: Any, b: Any) -> bool:
    """Whether two values can be compared: a boolean is no number here."""
    if isinstance(a, bool) or isinstance(b, bool):
        return isinstance(a, bool) and isinstance(b, bool)
    if isinstance(a, int | float) and isinstance(b, int | float):
        return True
    return type(a) is type(b)


def _wrong(parameter: str, text: str, at: int, right: str) -> Exception:
    there = repr(text[at : at + 10]) if at < len(text) else "the end"
    return wrong_value(parameter, f"{there} stands at character {at + 1}; {right} would be right there")
