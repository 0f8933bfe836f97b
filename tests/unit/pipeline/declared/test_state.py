"""A state folder belongs to one declaration: what has changed is said, what may change may."""

from pathlib import Path

import pytest

from holdfast.model.errors import PermanentError, SettingsError
from holdfast.pipeline.declared.parser import load
from holdfast.pipeline.declared.state import check_state, mark_tables_made, open_state
from tests.unit.pipeline.declared.declarations import written


def test_a_state_is_found_again(tmp_path: Path) -> None:
    declared = load(written(tmp_path))
    check_state(declared)
    assert not declared.state.exists()
    begun = open_state(declared)
    assert open_state(declared) == begun
    assert mark_tables_made(begun, declared).is_made
    assert open_state(declared).is_made


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('window = "1m"', 'window = "5m"', 'aggregate per_minute window was "1 minutes" and is "5 minutes"'),
        ("celsius BETWEEN -40 AND 125", "celsius < 99", 'rule plausible where was "celsius BETWEEN -40 AND 125" and'),
        (
            'name = "seq", type = "bigint"',
            'name = "seq", type = "int"',
            'decode columns seq kind was "bigint" and is "int"',
        ),
        ('topic = "plant/#"', 'topic = "plant/+"', 'source topicFilter was "plant/#" and is "plant/+"'),
        ('within = "10m"', 'within = "9m"', 'deduplicate within was "10 minutes" and is "9 minutes"'),
        ('path = "lake/rows"', 'path = "lake/new"', "sink delta of rows path was"),
        ('name = "indoors"', 'name = "inside"', "rule indoors is gone"),
    ],
)
def test_what_has_changed_is_said(tmp_path: Path, old: str, new: str, says: str) -> None:
    open_state(load(written(tmp_path)))
    with pytest.raises(SettingsError, match=r"(?s)pipeline\.toml has changed since .*begin again") as caught:
        check_state(load(written(tmp_path, (old, new))))
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('data = "holdfast-data"', 'endpoint = "grpc://127.0.0.1:18815"'),
        ("mqtt://127.0.0.1:1883", "mqtt://127.0.0.1:1999"),
        ('name = "plant"\n', '# new\nname = "plant"\nbatch = 77\n'),
    ],
)
def test_addresses_and_sizes_may_change(tmp_path: Path, old: str, new: str) -> None:
    begun = open_state(load(written(tmp_path)))
    assert open_state(load(written(tmp_path, (old, new)))) == begun


def test_a_damaged_state_is_no_new_one(tmp_path: Path) -> None:
    declared = load(written(tmp_path))
    open_state(declared)
    (declared.state / "pipeline.json").write_text("{", encoding="utf-8")
    with pytest.raises(PermanentError, match="cannot be read"):
        open_state(declared)
