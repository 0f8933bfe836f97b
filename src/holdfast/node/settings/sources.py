"""The sources of settings: a TOML file, the environment, flags. Each yields entries and checks none of them.

    [mqtt]                                          holdfast.toml
    max_qos = 1
    HOLDFAST__MQTT__MAX_QOS=1                       environment; two underscores join section and key
    --set mqtt.max_qos=1                            flag; --host, --port and --data are short for one key each

Environment and flags have text only. It is read as a TOML value; if it is not one, it is a string.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from holdfast.node.settings.tree import DEFAULT_LISTENER, SECTIONS, TABLES
from holdfast.node.settings.values import keys_of

#: Read if it exists and no other file is named.
DEFAULT_FILE: Final = Path("holdfast.toml")
ENVIRONMENT_PREFIX: Final = "HOLDFAST__"
_UNDERSCORES: Final = re.compile("_+")


@dataclass(frozen=True)
class SettingEntry:
    """One value from one source."""

    #: `("mqtt", "max_qos")`, or `("listeners", "tls", "port")`.
    path: tuple[str, ...]
    value: object
    #: Where to correct it: a file with its line, a variable, or a flag.
    source: str
    #: What was typed, where the source has text only.
    text: str | None = None

    @property
    def key(self) -> str:
        return ".".join(self.path)


@dataclass(frozen=True, kw_only=True)
class Flags:
    """Settings from the command line."""

    config: Path | None = None
    host: str | None = None
    port: int | None = None
    data: str | None = None
    #: `section.key=value`, each.
    assignments: Sequence[str] | None = None


class UnreadableSourceError(Exception):
    """A source cannot be read at all; the message says why. `loader` reports it with the other problems."""


def file_entries(path: Path) -> list[SettingEntry]:
    """The entries of a TOML file."""
    try:
        text = path.read_text(encoding="utf-8")
        table = tomllib.loads(text)
    except FileNotFoundError:
        raise UnreadableSourceError(f"{path}: there is no such file; name another with --config") from None
    except OSError as error:
        raise UnreadableSourceError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UnreadableSourceError(f"{path}: is not UTF-8 text; a settings file is TOML") from None
    except tomllib.TOMLDecodeError as error:
        raise UnreadableSourceError(f"{path}: is not TOML: {error}") from None
    lines = _lines(text)

    def source(keys: tuple[str, ...]) -> str:
        return f"{path}:{lines[keys]}" if keys in lines else str(path)

    return [SettingEntry(keys, value, source(keys)) for keys, value in _walk(table)]


def _walk(table: Mapping[str, object]) -> Iterator[tuple[tuple[str, ...], object]]:
    for section, content in table.items():
        if not isinstance(content, dict):
            yield (section,), content
            continue
        for key, value in content.items():
            yield (section, key), value
            if section in TABLES and isinstance(value, dict):
                for name, inner in value.items():
                    yield (section, key, name), inner


_HEADER: Final = re.compile(r"\s*\[([^\[\]]+)\]\s*(?:#.*)?")
_ASSIGNMENT: Final = re.compile(r"\s*([\w\-.\"' ]+?)\s*=")


def _lines(text: str) -> dict[tuple[str, ...], int]:
    """Line numbers of headers and keys. tomllib has none, so this finds the usual forms only."""
    found: dict[tuple[str, ...], int] = {}
    section: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.fullmatch(line):
            section = _parts(header[1])
            found.setdefault(section, number)
        elif assignment := _ASSIGNMENT.match(line):
            found.setdefault(section + _parts(assignment[1]), number)
    return found


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))


def environment_entries(environment: Mapping[str, str]) -> list[SettingEntry]:
    """The entries of the environment."""
    entries = []
    for name in sorted(environment):
        if name.startswith(ENVIRONMENT_PREFIX):
            path = tuple(name.removeprefix(ENVIRONMENT_PREFIX).lower().split("__"))
            text = environment[name]
            entries.append(SettingEntry(path, parse_text(text), name, text))
    return entries


def misspelt_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables whose underscores are wrong, such as HOLDFAST_MQTT_MAX_QOS, and how each is written."""
    right: dict[str, str] = {}
    for section, table in SECTIONS.items():
        right |= {f"{section}_{key}": f"{section}__{key}" for key in keys_of(table)}
    found = {}
    for name in sorted(environment):
        plain = _UNDERSCORES.sub("_", name).removeprefix("HOLDFAST_").lower()
        meant = right.get(plain) or _named_key(plain)
        written = f"{ENVIRONMENT_PREFIX}{meant}".upper()
        if name.startswith("HOLDFAST_") and meant is not None and name.upper() != written and not _is_key(name):
            found[name] = written
    return found


def _named_key(plain: str) -> str | None:
    """`listeners_tls_port` as `listeners__tls__port`; None if it is no key of a table with a name."""
    for section, tables in TABLES.items():
        for key in keys_of(tables.table):
            if plain.startswith(f"{section}_") and plain.endswith(f"_{key}"):
                name = plain[len(section) + 1 : -len(key) - 1]
                if name:
                    return f"{section}__{name}__{key}"
    return None


def _is_key(name: str) -> bool:
    """Whether the name of a variable is that of a key."""
    section, *rest = name.removeprefix(ENVIRONMENT_PREFIX).lower().split("__")
    if section in TABLES:
        return len(rest) == 2 and rest[1] in keys_of(TABLES[section].table)
    return section in SECTIONS and len(rest) == 1 and rest[0] in keys_of(SECTIONS[section])


def assignment_entry(assignment: str) -> SettingEntry:
    """The entry of one `--set`."""
    key, equals, text = assignment.partition("=")
    if not equals:
        raise UnreadableSourceError(f"--set {assignment}: there is no value; write --set section.key=value")
    path = tuple(part.strip() for part in key.split("."))
    return SettingEntry(path, parse_text(text), f"--set {key.strip()}", text)


def short_flag_entries(flags: Flags) -> list[SettingEntry]:
    """The entries of `--host`, `--port` and `--data`."""
    listener = ("listeners", DEFAULT_LISTENER)
    entries = [
        SettingEntry((*listener, "host"), flags.host, "--host"),
        SettingEntry((*listener, "port"), flags.port, "--port"),
        SettingEntry(("storage", "data"), flags.data, "--data"),
    ]
    return [entry for entry in entries if entry.value is not None]


def parse_text(text: str) -> object:
    """`text` as a TOML value, or as a string."""
    try:
        table = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return table["value"] if len(table) == 1 else text
