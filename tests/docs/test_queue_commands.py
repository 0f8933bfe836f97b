"""The commands of docs/guide/queue-command.md run as they are told, on the journal of a broker that was stopped."""

import re
from pathlib import Path

import pytest

from tests.docs.shell import blocks_of, run_shell

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "queue-command.md"


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_commands_for_queues_run(tmp_path: Path) -> None:
    (block,) = blocks_of(PAGE, "## Commands")
    (tmp_path / "holdfast.toml").write_text('[classes.devices]\nclients = "device-*"\nqueue = "journal"\n')
    before = (
        "holdfast serve 2> log & broker=$!\nsleep 3\n"
        "holdfast sub 'plant/#' --id device-7 --persistent -q 1 --count 1 > first 2> told & sub=$!\nsleep 1\n"
        "for number in 1 2 3; do holdfast pub plant/$number -m m$number -q 1; done\nwait $sub\n"
        "kill $broker; wait $broker\n"
    )
    ran = run_shell(f"{before}{block}holdfast queue stats journal:moved\n", tmp_path, 170.0)
    told = f"{ran.out}\n{ran.err}"
    assert ran.failed() == [], told
    lines = ran.out.splitlines()
    assert any(re.fullmatch(r"1 queues, 0 of them empty: [23] messages, \d+ B", line) for line in lines), told
    assert any(re.fullmatch(r"\d 20\S+Z plant/3 m3", line) for line in lines), told
    assert "1 queues moved; folders have 2,2 letters now" in lines, told
    assert any(re.fullmatch("1 queues moved, [23] messages; all were compared", line) for line in lines), told
    assert "1 queues, 1 of them empty: 0 messages, 0 B" in lines, told
