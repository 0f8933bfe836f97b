"""Settings from all sources: defaults, then the file, then the environment, then flags; the last one wins.

Everything that is wrong is reported at once: a value that is overridden later too, and rules between keys
(`settings_check`) as far as they can be judged.
"""

import difflib
import os
import re
from collections.abc import Mapping
from typing import Any, Final

from holdfast.broker.policy import ClientClass
from holdfast.node.settings import (
    DEFAULT_LISTENER,
    DEFAULT_PORTS,
    SECTIONS,
    TABLES,
    TREE,
    Listener,
    Settings,
    ZoneSettings,
)
from holdfast.node.settings_check import Problem, problems_of, refuse
from holdfast.node.settings_sources import (
    DEFAULT_FILE,
    Entry,
    Flags,
    UnreadableError,
    assignment_entry,
    environment_entries,
    file_entries,
    misspelt_variables,
    short_flag_entries,
)
from holdfast.node.settings_values import convert, keys_of, show

#: So that the environment can name it: lower case, and never two underscores in a row.
_TABLE_NAME: Final = re.compile(r"(?!.*__)[a-z0-9][a-z0-9_-]*")
_LISTENERS: Final = "listeners"
_ZONES: Final = "zones"
_CLASSES: Final = "classes"


def load(flags: Flags | None = None, environment: Mapping[str, str] | None = None, *, rules: bool = True) -> Settings:
    """The effective settings, or SettingsError with everything that is wrong with them.

    `environment` is this process's own unless given. Without `rules`, every value is right by itself, but rules between
    them are not judged: enough to show settings, not to run on them.
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
    """Values taken so far, where they come from, and what was wrong with the others."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.wrong_keys: set[str] = set()
        #: Whether a source could not be read: then what it would have set is unknown, and rules cannot be judged.
        self.partial = False
        self._unknown_tables: set[str] = set()
        self._sections: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
        #: Values by section, name and key.
        self._tables: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in TABLES}
        self._sources: dict[str, str] = {}

    def gather(self, flags: Flags, environment: Mapping[str, str]) -> list[Entry]:
        """All entries, the weakest source first."""
        entries: list[Entry] = []
        file = flags.config or (DEFAULT_FILE if DEFAULT_FILE.exists() else None)
        try:
            entries += [] if file is None else file_entries(file)
        except UnreadableError as error:
            self.problems.append(Problem(str(error)))
            self.partial = True
        misspelt = misspelt_variables(environment)
        for name, written in misspelt.items():
            self.problems.append(Problem(f"{name} sets nothing; two underscores join section and key: {written}"))
        entries += [entry for entry in environment_entries(environment) if entry.source not in misspelt]
        for assignment in flags.assignments:
            try:
                entries.append(assignment_entry(assignment))
            except UnreadableError as error:
                self.problems.append(Problem(str(error)))
                self.partial = True
        named = list(dict.fromkeys(e.path[1] for e in entries if e.path[0] == _LISTENERS and len(e.path) > 1))
        for entry in short_flag_entries(flags):
            if entry.path[0] == _LISTENERS and named and DEFAULT_LISTENER not in named:
                self._reject_short_flag(entry, named)
            else:
                entries.append(entry)
        return entries

    def _reject_short_flag(self, entry: Entry, named: list[str]) -> None:
        """`--host` and `--port` would add a listener where others are set up: hardly what was meant."""
        flag = f"{entry.source} {entry.value}"
        instead = f"--set listeners.{named[0]}.{entry.path[2]}={entry.value}"
        self._refuse(entry, f"{flag}: the listeners are {', '.join(named)}, and none is called default; use {instead}")

    def take(self, entry: Entry) -> None:
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

    def _take_named(self, entry: Entry) -> None:
        section, *rest = entry.path
        tables = TABLES[section]
        names = keys_of(tables.table)
        if rest and not _TABLE_NAME.fullmatch(rest[0]):
            text = f"{show(rest[0])} is no name for a {tables.noun}; use lower-case letters, digits, - and single _"
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

    def _set(self, entry: Entry, section: type, values: dict[str, Any]) -> None:
        spec = keys_of(section)[entry.path[-1]]
        try:
            values[spec.name] = convert(spec, entry.value, entry.text)
        except ValueError as error:
            self._refuse(entry, f"{entry.source}: {entry.key} {error}")
        else:
            self._sources[entry.key] = entry.source

    def _refuse_table(self, entry: Entry, table: str, text: str) -> None:
        """Once for a table, however many keys it has."""
        if table not in self._unknown_tables:
            self._refuse(entry, f"{entry.source}: {text}")
            self._unknown_tables.add(table)

    def _refuse(self, entry: Entry, text: str) -> None:
        self.problems.append(Problem(text))
        self.wrong_keys.add(entry.key)

    def settings(self) -> Settings:
        """The tree as far as it is right; what is wrong has its default."""
        listeners: dict[str, Listener] = {}
        for name, values in (self._tables[_LISTENERS] or {DEFAULT_LISTENER: {}}).items():
            port = DEFAULT_PORTS[values.get("kind", "tcp")]
            listeners[name] = Listener(**{"port": port, **values})
        zones = {name: ZoneSettings(**values) for name, values in self._tables[_ZONES].items()}
        classes = {name: ClientClass(**values) for name, values in self._tables[_CLASSES].items()}
        sections = {name: section(**self._sections[name]) for name, section in SECTIONS.items()}
        return Settings(listeners=listeners, zones=zones, classes=classes, sources=self._sources, **sections)


def _which_section(section: str) -> str:
    close = difflib.get_close_matches(section, TREE, 1)
    return f"; did you mean [{close[0]}]?" if close else f"; there are {', '.join(TREE)}"


def _which_key(section: str, rest: list[str]) -> str:
    """What was meant, if that can be guessed: a key of this section, or the same key of another."""
    names = list(keys_of(SECTIONS[section]))
    close = difflib.get_close_matches(".".join(rest), names, 1)
    if close:
        return f"; did you mean {section}.{close[0]}?"
    elsewhere = [name for name, other in SECTIONS.items() if rest[-1] in keys_of(other)]
    elsewhere += [f"{name}.NAME" for name, tables in TABLES.items() if rest[-1] in keys_of(tables.table)]
    return f"; did you mean {elsewhere[0]}.{rest[-1]}?" if elsewhere else f"; [{section}] has {', '.join(names)}"
