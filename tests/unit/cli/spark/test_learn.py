"""`holdfast spark learn` says what is wrong before anything is started, and what it found so that it can be read."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.cli.main import app
from holdfast.pipeline.learn.description import explain_patterns
from holdfast.pipeline.learn.job import LearnOutcome
from holdfast.pipeline.learn.topic_counts import UnmatchedTopics
from holdfast.storage.rocks.log.next_patterns import FILE_NAME, patterns_of, read_patterns, write_patterns
from tests.disk_world import DiskWorld, publish
from tests.unit.pipeline.topic_counts import learn_from

WRONG = [
    ([], "say where from: either --data"),
    (["--data", "nowhere"], "--data nowhere: this is no data folder of a broker"),
    (["--data", "DATA", "--endpoint", "grpc://h:1"], "either --data, the broker's data folder, or --endpoint"),
    (["--endpoint", "http://h:1"], "--endpoint http://h:1: give grpc://HOST:PORT"),
    (["--data", "DATA", "-o", "DATA"], "name a file in a folder that is there"),
    (["--data", "DATA", "-o", "DATA/no/x.json"], "name a file in a folder that is there"),
    (["--endpoint", "grpc://h:1", "--apply"], "--apply goes with --data"),
    (["--endpoint", "grpc://h:1", "--measure"], "--measure goes with --data"),
    (["--data", "DATA", "--master", "here"], "--master here: give local[*]"),
    (["--data", "DATA", "--zone", "press"], "'press'"),
    (["--data", "DATA", "--lake", "nowhere"], "nowhere"),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("learn") / "data"
    with DiskWorld(folder, storage={"layout": "learned"}) as world:
        publish(
            world, *[(f"fleet/d{n}/temp", b"21.5") for n in range(40)], *[(f"fleet/d{n}/gps", b"1") for n in range(40)]
        )
        world.settle()
    return folder


@pytest.mark.parametrize(("arguments", "said"), WRONG, ids=[" ".join(arguments) for arguments, _said in WRONG])
def test_wrong_options_are_named(data: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str) -> None:
    monkeypatch.setattr("holdfast.pipeline.learn.job.run_learn", lambda *_given: pytest.fail("Spark was started"))
    given = [argument.replace("DATA", str(data)) for argument in arguments]

    result = CliRunner().invoke(app, ["spark", "learn", *given])

    assert result.exit_code == 2
    assert said in result.output


def test_wrong_options_are_found_without_spark(tmp_path: Path) -> None:
    """Importing it alone takes longer than people wait."""
    program = (
        "import sys; from typer.testing import CliRunner; from holdfast.cli.main import app; "
        "print(CliRunner().invoke(app, ['spark', 'learn', '--apply', '--data', 'nowhere']).exit_code, "
        "[name for name in ('pyspark', 'deltalake', 'pyarrow') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)

    assert shown.stdout == "2 []\n"


@pytest.fixture
def learnt(monkeypatch: pytest.MonkeyPatch) -> LearnOutcome:
    """What is found, without Spark."""
    topics = [(f"fleet/d{n}/{what}", 1, 4) for n in range(40) for what in ("temp", "gps")]
    found = explain_patterns(learn_from([*topics, ("fleet/d3/odd", 1, 9), ("status", 20, 100)]))
    result = LearnOutcome(found, 82, UnmatchedTopics(1, 2, 3))
    monkeypatch.setattr("holdfast.pipeline.learn.job.run_learn", lambda *_given: result)
    return result


def test_people_get_a_table_with_words(data: Path, learnt: LearnOutcome) -> None:
    shown = CliRunner().invoke(app, ["spark", "learn", "--data", str(data)])

    assert shown.exit_code == 0, shown.output
    lines = shown.stdout.splitlines()
    assert lines[0].startswith("3 patterns, and 1 that is not sure, from 103 messages on 82 topics, 432 B, in ")
    temp = next(line for line in lines if line.startswith("fleet/+/temp "))
    assert temp.split()[1:5] == ["40", "40", "39.6%", "160"]
    assert "level 2 varies, 40 values, looks like a device id (d0 … d9), 5.3 bits" in temp
    unsure = lines[lines.index(next(line for line in lines if line.startswith("not sure"))) + 2]
    assert unsure.startswith("fleet/+/+ ")
    assert "fits no other pattern: level 3 has 2 names that most have, and these have another" in unsure
    assert "topics that are too long or too deep to follow a pattern: 1, with 2 messages" in lines
    assert lines[-1] == "with --apply, the next generation would begin with 2 patterns"
    assert not (data / FILE_NAME).exists()


def test_machines_get_json_and_a_file_that_a_broker_takes(data: Path, learnt: LearnOutcome, tmp_path: Path) -> None:
    file = tmp_path / "patterns.json"
    shown = CliRunner().invoke(app, ["spark", "learn", "--data", str(data), "--json", "-o", str(file)])

    assert shown.exit_code == 0, shown.output
    row = json.loads(shown.stdout)
    by_text = {one["pattern"]: one for one in row["patterns"]}
    assert {text for text, one in by_text.items() if one["sure"]} == {"fleet/+/temp", "fleet/+/gps", "status"}
    assert (row["messages"], row["topics"], row["bytes"], row["applied"]) == (103, 82, 432, False)
    assert by_text["fleet/+/gps"]["levels"] == [
        {"level": 2, "values": 40, "entropy_bits": 5.32, "looks": "id", "first": "d0", "last": "d9"}
    ]
    assert patterns_of(json.loads(file.read_text())) == {"default": (b"fleet/+/gps", b"fleet/+/temp")}


def test_apply_writes_what_is_sure_and_leaves_other_zones_alone(
    data: Path, learnt: LearnOutcome, tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    shutil.copytree(data, folder)
    write_patterns(folder, {"press": ["press/+"], "default": ["old/+"]})

    shown = CliRunner().invoke(app, ["spark", "learn", "--data", str(folder), "--apply"])

    assert shown.exit_code == 0, shown.output
    assert shown.stdout.splitlines()[-1].startswith("applied: the next generation begins with 2 patterns")
    assert read_patterns(folder) == {"default": (b"fleet/+/gps", b"fleet/+/temp"), "press": (b"press/+",)}
    with DiskWorld(folder) as world:
        topics = world.disk.log.zone_logs["default"].live[-1].by_shard[0].layout.learned()
        assert topics is not None
        assert sorted(pattern.text for pattern in topics.patterns()) == ["fleet/+/gps", "fleet/+/temp"]


def test_measure_tries_it_out(data: Path, learnt: LearnOutcome) -> None:
    """The structure that the log has, and those that follow, on the same messages."""
    shown = CliRunner().invoke(app, ["spark", "learn", "--data", str(data), "--measure", "--json"])

    assert shown.exit_code == 0, shown.output
    [measured] = json.loads(shown.stdout)["measured"]
    assert measured["messages"] == 80
    streams = {name: trial["streams"] for name, trial in measured["trials"].items()}
    assert streams == {"now": 22, "inherited": 2, "given": 2}
    for trial in measured["trials"].values():
        assert [answer["name"] for answer in trial["answers"]] == ["one device", "one shape", "everything"]
        assert [answer["messages"] for answer in trial["answers"]] == [2, 40, 80]
        assert trial["bytes_per_message"] > 20
    now, given = (measured["trials"][name]["answers"] for name in ("now", "given"))
    assert given[2]["seeks"] == 2
    assert now[2]["seeks"] == 22


def test_what_cannot_be_measured_is_said_and_learnt_nevertheless(learnt: LearnOutcome, tmp_path: Path) -> None:
    with DiskWorld(tmp_path / "data", storage={"layout": "timeline"}) as world:
        publish(world, ("fleet/d1/temp", b"21.5"))
        world.settle()

    shown = CliRunner().invoke(app, ["spark", "learn", "--data", str(tmp_path / "data"), "--measure"])

    assert shown.exit_code == 0, shown.output
    assert "not measured: zone 'default' has layout timeline, which does not place messages by patterns" in shown.stderr
    assert shown.stdout.startswith("3 patterns")
