"""The effective settings as rows, each with the place its value comes from."""

from dataclasses import dataclass

from holdfast.node.settings import SECTIONS, Listener, Settings
from holdfast.node.settings_values import keys_of


@dataclass(frozen=True)
class Row:
    """One key."""

    #: `section.key`, or `listeners.NAME.key`.
    key: str
    value: object
    #: `default`, `holdfast.toml:3`, an environment variable, or a flag.
    source: str


def effective(settings: Settings) -> list[Row]:
    """Every key with its value and its source, in the order of the tree.

    Secrets need no mask: settings name the files that hold them, and never hold one.
    """
    sections: list[tuple[str, type, object]] = [
        (f"listeners.{name}", Listener, listener) for name, listener in settings.listeners.items()
    ]
    sections += [(name, section, getattr(settings, name)) for name, section in SECTIONS.items()]
    rows = []
    for prefix, section, values in sections:
        for key in keys_of(section):
            name = f"{prefix}.{key}"
            rows.append(Row(name, getattr(values, key), settings.sources.get(name, "default")))
    return rows
