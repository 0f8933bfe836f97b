"""New settings for a running node: which of them apply at once, and which need a restart.

`Key.live` says so for each key. A listener or a zone that is added or removed needs a restart. A key that needs one
keeps its old value until then, and every reload names it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.broker.policy import ClientClass
from holdfast.node.settings.tree import SECTIONS, TABLES, Listener, Settings, ZoneSettings
from holdfast.node.settings.values import keys_of

_Table = Listener | ZoneSettings | ClientClass


@dataclass(frozen=True)
class SettingChange:
    """A key whose value differs."""

    #: `section.key`, `listeners.NAME.key`, or `listeners.NAME` for one that was added or removed; `zones` likewise.
    key: str
    before: object
    after: object
    #: Whether it applies without a restart.
    live: bool = field(kw_only=True)


@dataclass(frozen=True)
class SettingsReload:
    """The outcome of a reload."""

    #: The settings in effect: the old ones with every live change.
    settings: Settings
    changes: tuple[SettingChange, ...]

    def live(self) -> list[SettingChange]:
        """Changes that apply from now on."""
        return [change for change in self.changes if change.live]

    def waiting(self) -> list[SettingChange]:
        """Changes that need a restart."""
        return [change for change in self.changes if not change.live]


@dataclass
class ReloadOutcome:
    """What a reload of settings, access rules and certificates has done."""

    changed: list[SettingChange] = field(default_factory=list)
    #: Changes that need a restart.
    waiting: list[SettingChange] = field(default_factory=list)
    #: By part: why it stays as it was.
    errors: dict[str, str] = field(default_factory=dict)


@dataclass
class ReloadHistory:
    """The reloads of a node since its start."""

    #: When all of a reload succeeded last; 0 for never.
    last_success_us: int = 0
    failures: int = 0
    #: By part: what the last reload refused, so that the old one is in force.
    errors: dict[str, str] = field(default_factory=dict)

    def note(self, outcome: ReloadOutcome, now_us: int) -> None:
        self.errors = dict(outcome.errors)
        if outcome.errors:
            self.failures += 1
        else:
            self.last_success_us = now_us

    def describe_errors(self) -> str:
        """What was refused, for people; without blocks, whose file is watched by itself."""
        return "; ".join(f"{part}: {why}" for part, why in self.errors.items() if part != "blocks")


def merge(old: Settings, new: Settings) -> SettingsReload:
    """`old` with everything of `new` that can change while the node runs."""
    changes: list[SettingChange] = []
    sections: dict[str, Any] = {}
    for name, section in SECTIONS.items():
        found = _compare(name, section, getattr(old, name), getattr(new, name))
        changes += found
        values = {change.key.removeprefix(f"{name}."): change.after for change in found if change.live}
        sections[name] = replace(getattr(old, name), **values)
    for name, tables in TABLES.items():
        changes += _compare_tables(name, tables.table, getattr(old, name), getattr(new, name))
    waiting = {change.key for change in changes if not change.live}
    sources = {key: source for key, source in new.sources.items() if key not in waiting}
    sources |= {key: source for key, source in old.sources.items() if key in waiting}
    return SettingsReload(replace(old, sources=sources, **sections), tuple(changes))


def _compare(prefix: str, section: type, old: object, new: object) -> list[SettingChange]:
    return [
        SettingChange(f"{prefix}.{key}", before, after, live=spec.note.live)
        for key, spec in keys_of(section).items()
        if (before := getattr(old, key)) != (after := getattr(new, key))
    ]


def _compare_tables(
    section: str, table: type, old: Mapping[str, _Table], new: Mapping[str, _Table]
) -> Iterator[SettingChange]:
    for name in [*old, *(name for name in new if name not in old)]:
        prefix = f"{section}.{name}"
        if name in old and name in new:
            yield from _compare(prefix, table, old[name], new[name])
        else:
            yield SettingChange(prefix, _in_words(old.get(name)), _in_words(new.get(name)), live=False)


def _in_words(table: _Table | None) -> str | None:
    if isinstance(table, Listener):
        return f"{table.kind} on {table.host}, port {table.port}"
    if isinstance(table, ClientClass):
        return f"clients {table.clients}"
    return None if table is None else f"topics {table.filter}"
