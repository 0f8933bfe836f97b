"""Settings from all sources: defaults, then the file, then the environment, then flags; the last one wins.

All problems are reported together: also those of values that a later source overrides, and broken rules between keys
(`rules`) as far as they can be checked.
"""

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from holdfast.model.passwords import hide_passwords
from holdfast.node.settings.rules import SettingProblem, problems_of, refuse
from holdfast.node.settings.sources import (
    DEFAULT_FILE,
    Flags,
    SettingEntry,
    UnreadableSourceError,
    assignment_entry,
    environment_entries,
    file_entries,
    misspelt_variables,
    short_flag_entries,
)
from holdfast.node.settings.tree import DEFAULT_LISTENER, DEFAULT_PORTS, SECTIONS, TABLES, TREE, Settings
from holdfast.node.settings.values import convert, format_toml, keys_of

#: Lower case and no two underscores in a row, so that an environment variable can name it.
_TABLE_NAME: Final = re.compile(r"(?!.*__)[a-z0-9][a-z0-9_-]*")
_LISTENERS: Final = "listeners"


def load(flags: Flags | None = None, environment: Mapping[str, str] | None = None, *, rules: bool = True) -> Settings:
    """The effective settings, or SettingsError with everything that is wrong with them.

    `environment` is that of this process unless given. Without `rules`, single values are checked and rules between
    keys are not: enough to show settings, not to run with them.
    """
    flags = flags or Flags()
    tree = _Tree()
    entries = tree.gather(flags, os.environ if environment is None else environment)
    for entry in entries:
        tree.take(entry)
    settings = tree.settings()
    if rules and not tree.partial:
        tree.problems += [problem for problem in problems_of(settings) if not problem.keys & tree.wrong_keys]
    refuse(tree.problems)
    return settings


class _Tree:
    """The values so far, their sources, and the problems of the others."""

    def __init__(self) -> None:
        self.problems: list[SettingProblem] = []
        self.wrong_keys: set[str] = set()
        #: Whether a source could not be read: then its values are unknown, and rules cannot be checked.
        self.partial = False
        self._unknown_tables: set[str] = set()
        self._sections: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
        #: Values by section, name and key.
        self._tables: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in TABLES}
        self._sources: dict[str, str] = {}

    def gather(self, flags: Flags, environment: Mapping[str, str]) -> list[SettingEntry]:
        """All entries, the weakest source first."""
        entries: list[SettingEntry] = []
        file = flags.config or (DEFAULT_FILE if DEFAULT_FILE.exists() else None)
        try:
            entries += [] if file is None else file_entries(file)
        except UnreadableSourceError as error:
            self.problems.append(SettingProblem(str(error)))
            self.partial = True
        misspelt = misspelt_variables(environment)
        for name, written in misspelt.items():
            self.problems.append(
                SettingProblem(f"{name} sets nothing; two underscores join section and key: {written}")
            )
        entries += [entry for entry in environment_entries(environment) if entry.source not in misspelt]
        for assignment in flags.assignments or ():
            try:
                entries.append(assignment_entry(assignment))
            except UnreadableSourceError as error:
                self.problems.append(SettingProblem(str(error)))
                self.partial = True
        named = list(dict.fromkeys(e.path[1] for e in entries if e.path[0] == _LISTENERS and len(e.path) > 1))
        for entry in short_flag_entries(flags):
            if entry.path[0] == _LISTENERS and named and DEFAULT_LISTENER not in named:
                self._reject_short_flag(entry, named)
            else:
                entries.append(entry)
        return entries

    def _reject_short_flag(self, entry: SettingEntry, named: list[str]) -> None:
        """Refuse `--host` and `--port` where listeners are configured: they would add another one."""
        flag = f"{entry.source} {entry.value}"
        instead = f"--set listeners.{named[0]}.{entry.path[2]}={entry.value}"
        self._refuse(entry, f"{flag}: the listeners are {', '.join(named)}, and none is called default; use {instead}")

    def take(self, entry: SettingEntry) -> None:
        """Take one entry, or note what is wrong with it."""
        section, *rest = entry.path
        if section in TABLES:
            self._take_named(entry)
        elif section not in SECTIONS:
            self._refuse_table(entry, section, f"there is no section [{section}]{_which_section(section)}")
        elif not rest:
            self._refuse(entry, f"{entry.source}: {section} is a section; write [{section}] and its keys below")
        elif len(rest) > 1 or rest[0] not in keys_of(SECTIONS[section]):
            self._refuse(entry, f"{entry.source}: there is no setting {entry.key}{_which_key(section, rest)}")
        else:
            self._set(entry, SECTIONS[section], self._sections[section])

    def _take_named(self, entry: SettingEntry) -> None:
        section, *rest = entry.path
        tables = TABLES[section]
        names = keys_of(tables.table)
        if rest and not _TABLE_NAME.fullmatch(rest[0]):
            text = (
                f"{format_toml(rest[0])} is no name for a {tables.noun}; use lower-case letters, digits, - and single _"
            )
            self._refuse_table(entry, f"{section}.{rest[0]}", text)
        elif len(rest) == 1 and isinstance(entry.value, dict):
            self._tables[section].setdefault(rest[0], {})
        elif len(rest) < 2:
            name, usual = tables.example
            key = rest[0] if rest and rest[0] in names else usual
            text = f"every {tables.noun} has a name: write [{section}.{name}] and {key} below it"
            self._refuse(entry, f"{entry.source}: {entry.key} is no setting; {text}")
        elif len(rest) > 2 or rest[1] not in names:
            which = f"a {tables.noun} has {', '.join(names)}"
            if close := difflib.get_close_matches(rest[1], names, 1):
                meant = f"{section}.{rest[0]}.{close[0]}"
                which = f"did you mean {meant}?"
                self.wrong_keys.add(meant)
            self._refuse(entry, f"{entry.source}: there is no setting {entry.key}; {which}")
        else:
            self._set(entry, tables.table, self._tables[section].setdefault(rest[0], {}))

    def _set(self, entry: SettingEntry, section: type, values: dict[str, Any]) -> None:
        spec = keys_of(section)[entry.path[-1]]
        try:
            values[spec.name] = convert(spec, entry.value, entry.text)
        except ValueError as error:
            self._refuse(entry, f"{entry.source}: {entry.key} {error}")
        else:
            self._sources[entry.key] = entry.source

    def _refuse_table(self, entry: SettingEntry, table: str, text: str) -> None:
        """Report a table once, however many keys it has."""
        if table not in self._unknown_tables:
            self._refuse(entry, f"{entry.source}: {text}")
            self._unknown_tables.add(table)

    def _refuse(self, entry: SettingEntry, text: str) -> None:
        self.problems.append(SettingProblem(text))
        self.wrong_keys.add(entry.key)

    def settings(self) -> Settings:
        """The tree of all values that are right; the others have their defaults."""
        listeners = self._tables[_LISTENERS] = self._tables[_LISTENERS] or {DEFAULT_LISTENER: {}}
        for values in listeners.values():
            values.setdefault("port", DEFAULT_PORTS[values.get("kind", "tcp")])
        tables: dict[str, Any] = {
            section: {name: TABLES[section].table(**values) for name, values in named.items()}
            for section, named in self._tables.items()
        }
        sections = {name: section(**self._sections[name]) for name, section in SECTIONS.items()}
        return Settings(sources=self._sources, **tables, **sections)


def _which_section(section: str) -> str:
    close = difflib.get_close_matches(section, TREE, 1)
    return f"; did you mean [{close[0]}]?" if close else f"; there are {', '.join(TREE)}"


def _which_key(section: str, rest: list[str]) -> str:
    """A suggestion: a similar key of this section, or the same key of another."""
    names = list(keys_of(SECTIONS[section]))
    close = difflib.get_close_matches(".".join(rest), names, 1)
    if close:
        return f"; did you mean {section}.{close[0]}?"
    elsewhere = [name for name, other in SECTIONS.items() if rest[-1] in keys_of(other)]
    elsewhere += [f"{name}.NAME" for name, tables in TABLES.items() if rest[-1] in keys_of(tables.table)]
    return f"; did you mean {elsewhere[0]}.{rest[-1]}?" if elsewhere else f"; [{section}] has {', '.join(names)}"


@dataclass(frozen=True)
class SettingRow:
    """One key."""

    #: `section.key`, or `listeners.NAME.key`, or `zones.NAME.key`.
    key: str
    value: object
    #: `default`, `holdfast.toml:3`, an environment variable, or a flag.
    source: str


def effective_settings(settings: Settings) -> list[SettingRow]:
    """Every key with its value and its source, in the order of the tree.

    Passwords inside addresses are hidden. No other setting is a secret: they name the files that hold one.
    """
    rows = []
    for prefix, section, values in _tables(settings):
        for key in keys_of(section):
            name = f"{prefix}.{key}"
            value = getattr(values, key)
            shown = hide_passwords(value) if isinstance(value, str) else value
            rows.append(SettingRow(name, shown, settings.sources.get(name, "default")))
    return rows


def _tables(settings: Settings) -> Iterator[tuple[str, type, object]]:
    """Every table: the prefix of its keys, its class, and its values."""
    for name in TREE:
        if name in SECTIONS:
            yield name, SECTIONS[name], getattr(settings, name)
        else:
            for inner, values in getattr(settings, name).items():
                yield f"{name}.{inner}", TABLES[name].table, values
