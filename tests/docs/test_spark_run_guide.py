"""docs/guide/spark-run.md: its commands, one after the other, give what the page shows."""

import re
from pathlib import Path

import pytest
from deltalake import DeltaTable

import holdfast
from tests.docs.shell import blocks_of, run_shell

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "spark-run.md"
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_commands_of_the_page_give_what_it_shows(tmp_path: Path) -> None:
    blocks = blocks_of(PAGE, "## From messages to tables")
    assert len(blocks) == 3
    tree = Path(holdfast.__file__).resolve().parents[1]
    text = "\n".join([f"export PYTHONPATH={tree} SPARK_LOCAL_IP=127.0.0.1", *blocks])
    # The broker has another port here; a path of JSON is none of the shell's variables.
    text = text.replace("<<'END'", "<<END").replace("127.0.0.1:1883", "127.0.0.1:$HOLDFAST_PORT")

    ran = run_shell(text, tmp_path, 580.0)

    told = f"{ran.out}\n{ran.err}"
    assert ran.failed() == [], told
    picture, summary, published = [
        text for language, text in _BLOCK.findall(PAGE.read_text(encoding="utf-8")) if not language
    ]
    lines = [re.sub(r":\d+$", ":1883", line.replace(str(tmp_path), "/home/me")) for line in ran.out.splitlines()]
    assert "pipeline.toml: nothing is wrong; expressions of SQL are checked when it runs" in lines, told
    for line in [*picture.splitlines(), *summary.splitlines()[:-1], *published.splitlines()]:
        assert line.rstrip() in [each.rstrip() for each in lines], (line, told)
    [row] = DeltaTable(str(tmp_path / "lake/per_minute")).to_pyarrow_table().select(["hall", "mean"]).to_pylist()[:1]
    assert row["mean"] in (22.0, 19.0)
