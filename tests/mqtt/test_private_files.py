"""What a broker and its commands write is for their user alone, whatever the umask says."""

import os
import stat
import subprocess
import sys
from pathlib import Path

from tests.mqtt.broker_process import RunningBroker

SETTINGS = """\
[listeners.tcp]
port = 0
[storage]
data = "data"
min_free_bytes = 0
[sessions]
queue = "journal"
[journal]
folder = "queues"
"""
OPEN = "import os; os.umask(0o022)"


def holdfast(folder: Path, *arguments: str) -> None:
    program = f"{OPEN}\nfrom holdfast.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", program, *arguments], cwd=folder, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()


def readable_by_others(folder: Path) -> list[str]:
    """Files and folders that anybody but their owner may do anything with."""
    found = [folder, *folder.rglob("*")]
    return [f"{path} {stat.filemode(path.stat().st_mode)}" for path in found if path.stat().st_mode & 0o077]


def test_data_queues_backups_and_exports_are_for_their_user_alone(tmp_path: Path) -> None:
    broker = RunningBroker(tmp_path, SETTINGS, sabotage=OPEN)
    port = str(broker.ports["tcp"])
    holdfast(tmp_path, "pub", "t", "-m", "x", "-q", "1", "--retain", "--port", port)
    holdfast(tmp_path, "sub", "t", "-q", "1", "--persistent", "--id", "reader", "--count", "1", "--port", port)
    holdfast(tmp_path, "pub", "t", "-m", "y", "-q", "1", "--port", port)
    broker.stop()
    holdfast(tmp_path, "export", "#", "--data", "data", "-o", "messages.csv")
    holdfast(tmp_path, "backup", "backups/first", "--data", "data")
    holdfast(tmp_path, "restore", "backups/first", "--data", "restored")
    for name in ("data", "queues", "messages.csv", "backups/first", "restored"):
        assert (tmp_path / name).exists(), name
        assert readable_by_others(tmp_path / name) == []


def test_a_data_folder_that_others_can_read_is_tightened_with_one_line(tmp_path: Path) -> None:
    for name in ("data", "queues"):
        (tmp_path / name).mkdir(mode=0o755)
    broker = RunningBroker(tmp_path, SETTINGS, sabotage=OPEN)
    lines = broker.events("folder was open to other users, and is not any more")
    broker.stop()
    assert {line["folder"]: line["mode"] for line in lines} == {"data": "0755", "queues": "0755"}
    assert [stat.S_IMODE(os.stat(tmp_path / name).st_mode) for name in ("data", "queues")] == [0o700, 0o700]
