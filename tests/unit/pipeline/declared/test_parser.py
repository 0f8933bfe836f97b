"""A declaration is read whole, or everything that is wrong with it is said, with its line."""

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.model.errors import SettingsError
from holdfast.pipeline.declared.declaration import OnFail, PayloadFormat, draw
from holdfast.pipeline.declared.parser import DeclarationError, load
from holdfast.pipeline.declared.part_parser import may_match
from tests.unit.pipeline.declared.declarations import WHOLE, line_of, written


def complaints(file: Path) -> list[str]:
    with pytest.raises(DeclarationError) as caught:
        load(file)
    return str(caught.value).splitlines()


def test_a_whole_declaration_is_read(tmp_path: Path) -> None:
    declared = load(written(tmp_path))
    assert declared.source.options == {
        "path": str(tmp_path / "holdfast-data"),
        "lease": "run-plant",
        "topicFilter": "plant/#",
        "startingTime": "-7d",
    }
    assert declared.decode.format is PayloadFormat.JSON
    assert declared.decode.types() == {"hall": "string", "celsius": "double", "seq": "bigint"}
    assert [rule.on_fail for rule in declared.rules] == [OnFail.QUARANTINE, OnFail.DROP]
    assert declared.deduplicate is not None
    assert declared.deduplicate.within == "10 minutes"
    assert declared.aggregates[0].measures == {"readings": "count(*)", "mean": "avg(celsius)"}
    assert declared.tables[0].path == tmp_path / "lake/rows"
    assert declared.publishes[0].options == {"broker": "mqtt://127.0.0.1:1883"}


@pytest.mark.parametrize(
    ("old", "new", "at", "says"),
    [
        ('name = "plant"\n', "", "", "the file needs name"),
        ('data = "holdfast-data"', "", "[source]", "needs data or endpoint"),
        ('topic = "plant/#"', 'topic = "plant/#/x"', 'topic = "plant', "topic = 'plant/#/x'"),
        ('since = "-7d"', 'since = "yesterday"', "since", "give earliest, latest"),
        ('format = "json"', 'format = "xml"', "format", "give json, cbor, number, text or sparkplug_b"),
        ("level = 2", "level = 0", "level", "counted from 1"),
        ('type = "bigint"', 'type = "long"', '"seq", type', "give string, boolean, int, bigint, double"),
        ('path = "$.celsius"', 'path = "celsius"', '"celsius", path', "give a path such as $.celsius"),
        ('name = "seq"', 'name = "ts"', '"seq", type', "there is a column ts already"),
        ('on_fail = "drop"', 'on_fial = "drop"', "on_fail", "did you mean on_fail?"),
        ('on_fail = "drop"', 'on_fail = "ignore"', "on_fail", "give quarantine, drop or fail"),
        ('name = "indoors"', 'name = "plausible"', '"indoors"', "names have to differ"),
        ("celsius BETWEEN -40 AND 125", "ts < now()", "BETWEEN", "another answer when a batch is repeated"),
        ('"seq"]', '"seqence"]', "by = [", "there is no column 'seqence'; there are ts, topic"),
        ('within = "10m"', 'within = "ten"', "within", "give a time such as"),
        ('window = "1m"', 'window = "1m"\nslide = "2m"', 'by = ["hall"]', "longer than the window"),
        ("mean = ", "hall = ", "measures", "there is a column hall already"),
        ('name = "per_minute"', 'name = "rows"', '"per_minute"', "is the name of something else"),
        ('kind = "delta"', 'kind = "kafka"', 'kind = "delta"', "give delta or publish"),
        ('of = "per_minute"', 'of = "per_hour"', 'of = "per_minute"', "give rows, quarantine or per_minute"),
        ('"stats/{hall}"', '"stats/{room}"', "stats", "there is no column 'room'"),
        ('"stats/{hall}"', '"plant/{hall}"', "stats", "would be read again and again"),
        ('"mqtt://127.0.0.1:1883"', '"http://127.0.0.1"', "broker", "write mqtt://host:port"),
        ('topic = "stats/{hall}"', 'topic = "stats/{hall}"\nqos = 0', "stats", "takes 1 or 2"),
    ],
)
def test_a_mistake_is_said_with_its_line(tmp_path: Path, old: str, new: str, at: str, says: str) -> None:
    text = WHOLE.replace(old, new, 1)
    place = line_of(at) + (1 if "\n" in new and at == "stats" else 0) if at else 1
    found = complaints(written(tmp_path, (old, new)))
    assert any(line.startswith(f"pipeline.toml:{place}: ") and says in line for line in found), (text, found)


def test_all_mistakes_are_said_at_once_in_their_order(tmp_path: Path) -> None:
    found = complaints(written(tmp_path, ("-7d", "?"), ('"1m"', '"1x"'), ("delta", "delt")))
    lines = [int(line.split(":")[1]) for line in found]
    assert lines == sorted(lines)
    assert {line_of("since"), line_of("window"), line_of('kind = "delta"')} <= set(lines)


def test_what_is_no_toml_is_said_with_its_line(tmp_path: Path) -> None:
    [told] = complaints(written(tmp_path, ('since = "-7d"', "since = -7d")))
    assert told.startswith(f"pipeline.toml:{line_of('since')}: this is no TOML: ")
    [told] = complaints(written(tmp_path, ('topic = "stats/{hall}"\n', 'topic = """stats')))
    assert told.startswith(f"pipeline.toml:{line_of('stats')}: this is no TOML: ")
    (tmp_path / "pipeline.toml").write_bytes(b'name = "x"\nstate = "\xff"')
    assert complaints(tmp_path / "pipeline.toml") == ["pipeline.toml:2: this is not UTF-8"]
    with pytest.raises(SettingsError, match="cannot be read: No such file"):
        load(tmp_path / "other.toml")


def test_tables_of_the_wrong_kind_are_no_accident(tmp_path: Path) -> None:
    text = "name = 3\nstate = []\nsource = 1\ndecode = []\nrule = 4\naggregate = [1]\nsink = [2]\ndeduplicate = 'x'\n"
    found = complaints(written(tmp_path, text=text))
    assert {int(line.split(":")[1]) for line in found} == set(range(1, 9))


@pytest.mark.parametrize(
    ("topic", "source", "may"),
    [
        ("stats/x", "plant/#", False),
        ("plant/x", "plant/#", True),
        ("plant", "plant/#", True),
        ("{topic}/x", "plant/#", True),
        ("stats/{topic}", "+/a/b", True),
        ("stats/{hall}", "plant/+", False),
        ("plant/a/b", "plant/+", False),
        ("plant/a", "plant/a/b", False),
        ("x{hall}", "plant", True),
    ],
)
def test_a_loop_is_seen(topic: str, source: str, may: bool) -> None:
    assert may_match(topic, source) is may


def test_a_picture_names_every_part(tmp_path: Path) -> None:
    picture = draw(load(written(tmp_path)))
    for part in (
        "plant/#",
        "celsius double",
        "rule plausible",
        "hall <> 'yard'",
        "per_minute",
        "avg(celsius)",
        "stats",
    ):
        assert part in picture


def test_checking_takes_no_spark(tmp_path: Path) -> None:
    file = written(tmp_path)
    program = (
        "import sys; from holdfast.cli.main import app\n"
        f"app(['spark', 'run', '--check', '--show', {str(file)!r}], standalone_mode=False)\n"
        "assert not {'pyspark', 'pyarrow', 'deltalake'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "nothing is wrong" in done.stdout
