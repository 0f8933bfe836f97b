"""`holdfast verify`, `backup`, `restore`, `zones`: on the folder of a broker that does not run."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from holdfast.cli.storage import command
from holdfast.durable.changes import Changes
from holdfast.model.clock import ManualClock
from holdfast.records.meta_keys import head_key
from holdfast.storage.rocks.engine.engine import Engine
from tests.unit.durable.state_machine.vnode import message
from tests.unit.storage.rocks.log_node import Node
from tests.unit.storage.rocks.vnodes.vnode_world import Logs, opened, shard_of
from tests.unit.storage.rocks.vnodes.vnode_world import Node as ClusterNode

app = typer.Typer()
app.command()(command.verify)
app.command()(command.backup)
app.command()(command.restore)
app.add_typer(command.zones, name="zones")


def run(*arguments: str | Path, columns: int = 200) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": str(columns)})


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two generations, the first one indexed."""
    folder = tmp_path / "data"
    node = Node(folder, ManualClock(), shards=1)
    node.fill(5)
    node.maintenance.rotate(node.zone)
    node.fill(5)
    node.log.close()
    return folder


def damage(data: Path) -> None:
    engine = Engine.open(data, reserve_bytes=0)
    changes = Changes()
    changes.into("meta").put(head_key(0), b"\x01")
    engine.write(engine.written + 1, changes)
    engine.close()


def test_a_sound_folder_is_read_and_found_sound(data: Path) -> None:
    done = run("verify", "--data", data)
    assert done.exit_code == 0, done.output
    assert "200 messages" in done.stdout
    assert "nothing is wrong" in done.stdout


def test_what_is_wrong_is_printed_with_what_to_do_and_status_1(data: Path) -> None:
    """L21"""
    damage(data)
    done = run("verify", "--data", data)
    assert done.exit_code == 1
    assert "meta: the head of a shard has 1 bytes and ends within the position" in done.stdout
    assert "→ restore a backup" in done.stdout


def test_a_report_can_be_json(data: Path) -> None:
    damage(data)
    done = run("verify", "--json", "--data", data)
    assert done.exit_code == 1
    report = json.loads(done.stdout)
    assert report["sound"] is False
    assert report["problems"][0]["where"] == "meta"
    assert report["messages"] == 200


@pytest.mark.parametrize("verb", [("verify",), ("backup", "there"), ("zones", "list"), ("zones", "patterns")])
def test_a_folder_without_data_is_refused_and_not_made(tmp_path: Path, verb: tuple[str, ...]) -> None:
    done = run(*verb, "--data", tmp_path / "nothing")
    assert done.exit_code == 2
    assert "no data folder" in done.output
    assert not (tmp_path / "nothing").exists()


def test_a_folder_in_use_is_refused(data: Path) -> None:
    engine = Engine.open(data, reserve_bytes=0)
    done = run("verify", "--data", data)
    engine.close()
    assert done.exit_code == 2
    assert str(data) in done.output


def test_the_folder_of_the_settings_is_the_default(data: Path, tmp_path: Path) -> None:
    settings = tmp_path / "own.toml"
    settings.write_text(f'[storage]\ndata = "{data}"\n')
    assert "200 messages" in run("verify", "--config", settings).stdout


def test_a_backup_is_restored_and_sound(data: Path, tmp_path: Path) -> None:
    done = run("backup", tmp_path / "backup", "--data", data)
    assert done.exit_code == 0, done.output
    done = run("restore", tmp_path / "backup", "--data", tmp_path / "restored")
    assert done.exit_code == 0, done.output
    done = run("verify", "--data", tmp_path / "restored")
    assert done.exit_code == 0, done.output
    assert "200 messages" in done.stdout
    assert run("restore", tmp_path / "backup", "--data", tmp_path / "restored").exit_code == 2


def test_zones_are_listed_with_their_generations(data: Path) -> None:
    done = run("zones", "list", "--data", data)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert len(lines) == 3
    assert "default" in lines[1]
    assert lines[2].split()[-4:-2] == ["open", "100"]
    rows = json.loads(run("zones", "list", "--json", "--data", data).stdout)
    assert [(row["number"], row["messages"]) for row in rows] == [(1, 100), (2, 100)]
    assert rows[0]["end_us"] <= rows[1]["start_us"]


@pytest.mark.parametrize("columns", [80, 100, 120])
def test_zones_and_patterns_are_whole_on_a_narrow_terminal(data: Path, columns: int) -> None:
    zones = run("zones", "list", "--data", data, columns=columns).stdout
    patterns = run("zones", "patterns", "--data", data, columns=columns).stdout
    assert "…" not in zones + patterns
    assert "everything else" in zones
    assert "plant/+/temp" in patterns


def test_patterns_are_shown_with_their_messages(data: Path) -> None:
    done = run("zones", "patterns", "--data", data)
    assert done.exit_code == 0, done.output
    assert "plant/+/temp" in done.stdout
    rows = json.loads(run("zones", "patterns", "--json", "--data", data).stdout)
    assert sum(row["messages"] for row in rows if row["generation"] == 1) == 100
    assert sum(row["messages"] for row in rows if row["generation"] == 2) == 100
    assert json.loads(run("zones", "patterns", "--zone", "other", "--json", "--data", data).stdout) == []


def test_a_zone_is_rotated(data: Path) -> None:
    done = run("zones", "rotate", "default", "--data", data, "--set", "storage.durability=fsync")
    assert done.exit_code == 0, done.output
    assert "generation 3 has begun" in done.stdout
    rows = json.loads(run("zones", "list", "--json", "--data", data).stdout)
    assert [row["number"] for row in rows] == [1, 2, 3]
    assert rows[1]["end_us"] > 0
    assert run("verify", "--data", data).exit_code == 0


def test_a_zone_of_a_cluster_is_listed_and_not_rotated_on_one_node(tmp_path: Path) -> None:
    logs = Logs()
    logs.write(1, message(b"a/1"), message(b"a/2"))
    with opened(tmp_path) as engine:
        ClusterNode(engine).catch_up(logs)
    rows = json.loads(run("zones", "list", "--json", "--data", tmp_path).stdout)
    assert [row["messages"] for row in rows if row["shards"] == [shard_of(1)]] == [2]
    done = run("zones", "rotate", "default", "--data", tmp_path)
    assert done.exit_code == 2
    assert "belongs to a node of a cluster" in done.output.replace("\n", " ")


def test_a_zone_that_is_not_there_is_refused(data: Path) -> None:
    done = run("zones", "rotate", "other", "--data", data)
    assert done.exit_code == 2
    assert "no zone 'other'" in done.output


def test_a_zone_that_stores_nothing_is_refused_and_not_sealed(data: Path) -> None:
    done = run("zones", "rotate", "default", "--data", data, "--set", "storage.durability=memory")
    assert done.exit_code == 2
    assert "no zone 'default' that stores messages" in done.output
    assert json.loads(run("zones", "list", "--json", "--data", data).stdout)[-1]["end_us"] == 0
