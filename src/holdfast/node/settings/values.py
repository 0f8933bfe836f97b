"""One key of the settings tree: its type as text, and values from outside converted to it."""

import json
import types
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from holdfast.broker.policy import Key
from holdfast.model.errors import MisuseError
from holdfast.model.passwords import hide_passwords


@dataclass(frozen=True)
class KeySpec:
    """A key as the tree declares it."""

    name: str
    #: `bool`, `int`, `float`, `str` or `Path`.
    kind: type
    default: object
    note: Key
    #: Whether it may be unset; an empty value unsets it.
    optional: bool = False
    #: The allowed values, if the key has a fixed list.
    choices: tuple[str, ...] = ()


@cache
def keys_of(section: type) -> Mapping[str, KeySpec]:
    """The keys of a section's class, in their order."""
    hints = get_type_hints(section, include_extras=True)
    specs = [_spec(entry.name, hints[entry.name], entry.default) for entry in fields(section)]
    return {spec.name: spec for spec in specs}


def _spec(name: str, hint: Any, default: object) -> KeySpec:
    if get_origin(hint) is not Annotated or default is MISSING:
        raise MisuseError(f"the setting {name} has no Key or no default")
    kind, note = get_args(hint)
    optional = False
    if get_origin(kind) in (Union, types.UnionType):
        kind = next(member for member in get_args(kind) if member is not type(None))
        optional = True
    choices: tuple[str, ...] = ()
    if get_origin(kind) is Literal:
        choices = get_args(kind)
        kind = str
    return KeySpec(name, kind, default, note, optional, choices)


def describe_expected(spec: KeySpec) -> str:
    """What a value must be, as text for error messages and the reference page."""
    if spec.choices:
        return f"one of {', '.join(spec.choices)}"
    if spec.kind is bool:
        return "true or false"
    if spec.kind is Path:
        return "a path"
    if spec.kind is str:
        return "text"
    words = "a whole number" if spec.kind is int else "a number"
    low, high = spec.note.minimum, spec.note.maximum
    if low is not None and high is not None:
        return f"{words} from {low} to {high}"
    return words if low is None else f"{words}, at least {low}"


def convert(spec: KeySpec, value: object, text: str | None = None) -> object:
    """Convert `value` to the type of the key; ValueError says what it must be.

    `text` is the original text of a source that has text only. Keys of type string take it, so that a folder may be
    called 2026.
    """
    if spec.kind in (str, Path) and text is not None and not isinstance(value, str):
        value = text
    if value == "" and spec.optional:
        return None
    if isinstance(value, str) and spec.kind in (str, Path):
        if "\0" in value:
            raise ValueError("contains U+0000; it must be without")
        if spec.choices and value not in spec.choices:
            raise ValueError(f"is {format_toml(value)}; it must be {describe_expected(spec)}")
        if spec.kind is Path and not value:
            raise ValueError("is empty; it must be a path")
        return Path(value) if spec.kind is Path else value
    if spec.kind is bool and isinstance(value, bool):
        return value
    if spec.kind in (int, float) and isinstance(value, int | float) and not isinstance(value, bool):
        return _number(spec, value)
    raise ValueError(f"is {format_toml(value)}; it must be {describe_expected(spec)}")


def _number(spec: KeySpec, value: float) -> float:
    low, high = spec.note.minimum, spec.note.maximum
    whole = spec.kind is float or isinstance(value, int)
    # This form refuses `nan`, which TOML allows.
    fits = (low is None or value >= low) and (high is None or value <= high) and value == value
    if not whole or not fits:
        raise ValueError(f"is {format_toml(value)}; it must be {describe_expected(spec)}")
    return float(value) if spec.kind is float else value


def format_toml(value: object) -> str:
    """A value in TOML's syntax, without the passwords of URLs."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | Path):
        return json.dumps(hide_passwords(str(value)), ensure_ascii=False)
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "an array"
    return "not set" if value is None else str(value)
