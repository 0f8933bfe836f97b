"""What a reader may paste into a terminal does what the text around it says: the README, the tour, and commands."""

import re
import sys
from pathlib import Path

import pytest

import holdfast
from bench.ports import free_port
from tests.docs.shell import blocks_of, run_shell

ROOT = Path(__file__).resolve().parents[2]
TOUR = ROOT / "docs" / "guide" / "tour.md"
COMMANDS = ROOT / "docs" / "guide" / "command-line.md"
PIPELINE = ROOT / "docs" / "pipeline.md"
#: Seconds that a whole page may take; machines that test are busy.
DEADLINE_S = 170.0
_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_tour_works_as_it_is_told(tmp_path: Path) -> None:
    """Q1: what was acknowledged before `kill -9` is there after it."""
    blocks = blocks_of(TOUR, "# A tour of five minutes")
    assert len(blocks) >= 8
    ran = run_shell("".join(blocks), tmp_path, DEADLINE_S)
    told = f"{ran.out}\n{ran.err}"
    lines = ran.out.splitlines()

    published = ["plant/hall1/temp 21.5", "plant/hall2/temp 19.0"]
    ordered = ["orders/1 two chairs", "orders/2 one table", "orders/3 a lamp"]
    assert lines[:2] == published, told
    assert lines[2:5] == ordered, told
    replayed = [re.sub(f"^{_TIME} ", "", line) for line in lines[5:10]]
    assert replayed == [*published, *ordered], told
    assert re.search(r"^replayed 3 messages, .*, in [\d.]+ s$", lines[10]), told
    assert lines[11:14] == [f"again/{line}" for line in ordered], told
    assert lines[14] == '"ts","topic","payload","payload_encoding"'
    assert re.fullmatch(f'"{_TIME}","orders/3","a lamp","utf-8"', lines[17]), told
    assert lines[18].startswith("everything.parquet: 8 messages, "), told
    assert '"payload": "running"' in lines[19], told
    assert sorted(lines[20:26]) == [f"jobs {number}" for number in range(1, 7)], told
    assert any("nothing is wrong" in line for line in lines), told
    assert ran.failed() == [
        "pub plant/safe/door -m open -q 1 --user alice --password-env ALICE",
        "pub plant/hall1/temp -m 20",
    ], told
    assert "Traceback" not in ran.err


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_first_commands_of_the_readme_work(tmp_path: Path) -> None:
    (block,) = blocks_of(ROOT / "README.md", "## Run it")
    ran = run_shell(f"{block}kill $!; wait $!", tmp_path, DEADLINE_S)
    assert ran.failed() == [], f"{ran.out}\n{ran.err}"
    assert ran.out.splitlines() == ["plant/hall1/temp 21.5"], f"{ran.out}\n{ran.err}"


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize(("page", "heading"), [(ROOT / "README.md", "## Kill it and count"), (COMMANDS, "## `demo`")])
def test_the_demo_ends_as_it_is_shown(page: Path, heading: str, tmp_path: Path) -> None:
    """Q1: what a visitor sees first."""
    (block,) = blocks_of(page, heading)
    quick = re.sub(r" --(seconds|every|rate) \d+", "", block).replace("--kill-it", "--kill-it --seconds 3 --every 1")
    ran = run_shell(quick, tmp_path, DEADLINE_S)
    assert ran.failed() == [], f"{ran.out}\n{ran.err}"
    assert "none lost, none of QoS 2 delivered twice" in ran.out


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_commands_of_replay_and_export_run(tmp_path: Path) -> None:
    blocks = [*blocks_of(COMMANDS, "## `replay`"), *blocks_of(COMMANDS, "## `export`")]
    assert len(blocks) >= 2
    before = "holdfast serve 2> log & broker=$!\nsleep 3\nholdfast pub plant/hall1/temp -m 21.5 -q 1\n"
    ran = run_shell(f"{before}{''.join(blocks)}kill $broker; wait $broker\ncat temp.csv", tmp_path, DEADLINE_S)
    told = f"{ran.out}\n{ran.err}"
    assert ran.failed() == [], told
    assert len(ran.calls) == 2 + "".join(blocks).count("holdfast "), told
    assert re.search(f"^{_TIME} plant/hall1/temp 21.5$", ran.out, re.MULTILINE), told
    assert re.search(f'^"{_TIME}","plant/hall1/temp","21.5","utf-8"$', ran.out, re.MULTILINE), told
    assert (tmp_path / "plant.parquet").is_file()
    assert (tmp_path / "day.jsonl").is_file()


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1500)
def test_the_way_from_zero_to_a_cluster_can_be_gone(tmp_path: Path) -> None:
    """docs/pipeline.md: a query by path and by Flight, a stream, a cluster on one machine."""
    headings = ("## From zero to a query", "## To a stream", "## To a cluster")
    blocks = [block for heading in headings for block in blocks_of(PIPELINE, heading)]
    assert len(blocks) == 6
    tree = Path(holdfast.__file__).resolve().parents[1]
    place = f"export PYTHONPATH={tree} SPARK_LOCAL_IP=127.0.0.1"
    flight_port = free_port()
    ports = f"export HOLDFAST__HISTORY__FLIGHT_PORT={flight_port} HOLDFAST__HISTORY__HTTP_PORT=0"
    text = "\n".join([place, ports, *blocks]).replace("18815", str(flight_port))
    submit = Path(sys.executable).with_name("spark-submit")
    spark = {
        "python": f'exec "{sys.executable}" "$@"',
        "spark-submit": f'PYSPARK_PYTHON="{sys.executable}" exec "{submit}" "$@"',
    }

    ran = run_shell(text, tmp_path, 1480.0, spark)

    told = f"{ran.out}\n{ran.err}"
    assert ran.failed() == [], told
    lines = ran.out.splitlines()
    found = [f"plant/hall{hall}/temp 2{hall}.5" for hall in (1, 2, 3, 4)]
    assert lines[:6] == [*found[:3], *found[:3]], told
    assert lines[6:8] == ["3 messages in files", "4 messages in files"], told
    assert lines[8].split() == ["lease", "shards", "behind", "renewed"], told
    assert lines[9].split()[0] == "files", told
    assert lines[-4:] == found, told
