"""The effective settings as rows, each with the place its value comes from."""

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.model.passwords import hide_passwords
from holdfast.node.settings import SECTIONS, TABLES, TREE, Settings
from holdfast.node.settings_values import keys_of


@dataclass(frozen=True)
class Row:
    """One key."""

    #: `section.key`, or `listeners.NAME.key`, or `zones.NAME.key`.
    key: str
    value: object
    #: `default`, `holdfast.toml:3`, an environment variable, or a flag.
    source: str


def effective(settings: Settings) -> list[Row]:
    """Every key with its value and its source, in the order of the tree.

    Passwords inside addresses are hidden. No other setting is a secret: they name the files that hold one.
    """
    rows = []
    for prefix, section, values in _tables(settings):
        for key in keys_of(section):
            name = f"{prefix}.{key}"
            value = getattr(values, key)
            shown = hide_passwords(value) if isinstance(value, str) else value
            rows.append(Row(name, shown, settings.sources.get(name, "default")))
    return rows


def _tables(settings: Settings) -> Iterator[tuple[str, type, object]]:
    """Every table there is: what stands in front of its keys, its class, and its values."""
    for name in TREE:
        if name in SECTIONS:
            yield name, SECTIONS[name], getattr(settings, name)
        else:
            for inner, values in getattr(settings, name).items():
                yield f"{name}.{inner}", TABLES[name].table, values
