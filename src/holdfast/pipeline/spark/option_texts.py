"""Options of readers and writers, as Spark passes them: texts by name, in any case, with underscores or without."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from holdfast.model.errors import PeerError, SettingsError

#: By the name of an option: the field that it fills, and what makes the field's value of its text.
OptionTable = Mapping[str, tuple[str, Callable[[str], Any]]]
#: Spark's own, which it passes on to every source and sink.
_FOREIGN: Final = ("__", "spark.")


def name_options(
    given: Mapping[str, str], table: OptionTable, refusal: str, ignored: Collection[str] = ()
) -> dict[str, str]:
    """The texts by the names of the table. SettingsError for another option, unless it is one of `ignored`.

    `refusal` has two places: for the name that was given, and for all names there are.
    """
    # Both spellings are in use: Spark's own options have no underscores, its columns have.
    known = {name.lower(): name for name in table}
    texts = {}
    for key, value in given.items():
        name = known.get(key.lower().replace("_", ""))
        if name is not None:
            texts[name] = value
        elif not key.startswith(_FOREIGN) and key.lower() not in ignored:
            raise SettingsError(refusal.format(repr(key), ", ".join(table)))
    return texts


def parse_options(texts: Mapping[str, str], table: OptionTable) -> dict[str, Any]:
    """The fields that the texts fill. SettingsError names the option that is wrong."""
    fields = {}
    for name, (field, parse) in table.items():
        if name in texts:
            with option_errors(name):
                fields[field] = parse(texts[name])
    return fields


@contextmanager
def option_errors(name: str) -> Iterator[None]:
    """A ValueError or PeerError in the block becomes a SettingsError that names the option."""
    try:
        yield
    except PeerError as wrong:
        raise SettingsError(f"option {name}: {wrong.detail}") from None
    except ValueError as wrong:
        raise SettingsError(f"option {name}: {wrong}") from None


def parse_boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return text.lower() == "true"


def strip_file_scheme(text: str) -> str:
    """A path that may be written as a URL, as `file:///data`; other URLs stay as they are."""
    found = re.match(r"file:(?://)?(/.*)", text)
    return found[1] if found else text
