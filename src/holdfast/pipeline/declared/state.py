"""The state folder of a pipeline: how far it has come, and for which declaration that holds.

    STATE/pipeline.json       id, and the declaration that the rest belongs to
    STATE/checkpoints/STEP    Spark's own
    STATE/tables/NAME         tables between steps that no sink asks for
    STATE/aliases/            of Sparkplug B

What was counted by one declaration is not taken on by another: windows of one minute do not become windows of five. So
a declaration that has changed is refused, with what has changed. Addresses, passwords and the size of a batch may.
"""

import json
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from holdfast.files.replacement import read_json, replace_file
from holdfast.model.errors import PermanentError, SettingsError
from holdfast.pipeline.declared.declaration import Declaration

_FILE: Final = "pipeline.json"
#: Of the source: what is read stays the same, from wherever.
_FREE: Final = ("path", "endpoint", "tokenFile", "ca", "lease", "failOnDataLoss")
_VERSION: Final = 1


@dataclass(frozen=True)
class PipelineState:
    """The content of a state folder."""

    folder: Path
    #: Tables have it as their name.
    id: str
    #: Whether all tables were made.
    is_made: bool

    def checkpoint(self, step: str) -> str:
        return str(self.folder / "checkpoints" / step)

    def table(self, name: str) -> Path:
        return self.folder / "tables" / name

    @property
    def aliases(self) -> Path:
        return self.folder / "aliases"


def check_state(declared: Declaration) -> None:
    """SettingsError if the folder belongs to another declaration. Needs no Spark."""
    _open(declared)


def open_state(declared: Declaration) -> PipelineState:
    """The state, made if there is none. Requires: `lock_folder`."""
    state = _open(declared)
    if state is None:
        state = PipelineState(declared.state, uuid.uuid4().hex, is_made=False)
        _save(state, declared)
    return state


def mark_tables_made(state: PipelineState, declared: Declaration) -> PipelineState:
    made = PipelineState(state.folder, state.id, is_made=True)
    if not state.is_made:
        _save(made, declared)
    return made


def _open(declared: Declaration) -> PipelineState | None:
    try:
        found = read_json(declared.state / _FILE, _VERSION)
        known = found["declared"]
        state = PipelineState(declared.state, found["id"], bool(found["made"]))
    except FileNotFoundError:
        return None
    except PermanentError as error:
        raise SettingsError(f"{error}; run the Holdfast that made it, or give another state folder") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PermanentError(f"{declared.state / _FILE} cannot be read: {error}") from error
    changes = list(differences(known, describe_declaration(declared)))
    if changes:
        listed = "\n".join(f"  {change}" for change in changes)
        raise SettingsError(
            f"{declared.file.name} has changed since {declared.state} was begun:\n{listed}\n"
            f"Put it back to go on; or give another name, another state folder and other paths of tables to begin again"
        )
    return state


def describe_declaration(declared: Declaration) -> dict[str, Any]:
    """What results depend on, as JSON has it."""
    aggregates = {each.name: asdict(each) for each in declared.aggregates}
    for row in aggregates.values():
        row.pop("place")
    found = {
        "name": declared.name,
        "source": {key: text for key, text in declared.source.options.items() if key not in _FREE},
        "decode": {
            "format": declared.decode.format,
            "columns": {column.name: asdict(column) for column in declared.decode.columns},
        },
        "rule": {rule.name: {"where": rule.where, "on_fail": rule.on_fail} for rule in declared.rules},
        "deduplicate": None if declared.deduplicate is None else asdict(declared.deduplicate),
        "aggregate": aggregates,
        "sink": {f"delta of {sink.of}": {"path": str(sink.path)} for sink in declared.tables}
        | {sink.name: {"of": sink.of, "topic": sink.topic, "payload": sink.payload} for sink in declared.publishes},
        # The order of rules counts: a row has the name of the first that it fails.
        "rules": ", ".join(rule.name for rule in declared.rules),
    }
    plain: dict[str, Any] = json.loads(json.dumps(found))
    return plain


def differences(known: Any, found: Any, at: str = "") -> Iterator[str]:
    """What has changed, one line each."""
    if isinstance(known, dict) and isinstance(found, dict):
        for key in [*known, *(key for key in found if key not in known)]:
            inner = f"{at} {key}".strip()
            if key not in found:
                yield f"{inner} is gone"
            elif key not in known:
                yield f"{inner} is new"
            else:
                yield from differences(known[key], found[key], inner)
    elif known != found:
        yield f"{at} was {_shown(known)} and is {_shown(found)}"


def _shown(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False)


def _save(state: PipelineState, declared: Declaration) -> None:
    """Survives: a power loss."""
    state.folder.mkdir(parents=True, exist_ok=True)
    row = {"version": _VERSION, "id": state.id, "made": state.is_made, "declared": describe_declaration(declared)}
    replace_file(state.folder / _FILE, (json.dumps(row, indent=1, ensure_ascii=False) + "\n").encode())
