"""Shell examples of the documents, run as a reader would paste them: one after the other, in one shell.

Some programs are not the real ones: `holdfast` is the tree under test on a free port, `make` and `pip` do nothing, and
`sleep` waits until what was sent to the background is ready, however long that takes on this machine. Brokers are
processes of their own, which can be killed; other calls are made by one that has imported everything already.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_IN_BACKGROUND = re.compile(r"^(?=holdfast (?:serve|sub)\b.*&)", re.MULTILINE)
_SHIM = Path(__file__).with_name("holdfast_shim.py")
_ASKER = Path(__file__).with_name("holdfast_asker.py")
_PROGRAMS = {
    "holdfast": f"""
[ "$1" = serve ] && exec "{sys.executable}" "{_SHIM}" "$@"
exec "{sys.executable}" -S -E "{_ASKER}" "$@" """,
    "make": "exit 0",
    "pip": "exit 0",
    "sleep": """
for started in "$MARKS"/*.started; do
    tries=0
    while [ ! -e "${started%.started}.ready" ] && [ $tries -lt 1200 ]; do
        /bin/sleep 0.05
        tries=$((tries + 1))
    done
done""",
}


class Ran(NamedTuple):
    """What a shell printed, and the calls of `holdfast` that ended, each with its exit status."""

    out: str
    err: str
    calls: list[tuple[str, int]]

    def failed(self) -> list[str]:
        return [call for call, status in self.calls if status]


def blocks_of(page: Path, heading: str) -> list[str]:
    """The shell blocks below a heading; those with addresses of other machines are no part of it."""
    content = "\n" + page.read_text(encoding="utf-8")
    start = content.index(f"\n{heading}\n")
    level = heading.split(" ")[0]
    end = content.find(f"\n{level} ", start + 1)
    found = _BLOCK.findall(content[start : end if end > 0 else None])
    return [block for block in found if "example.org" not in block]


def run_shell(text: str, folder: Path, timeout_s: float, programs_too: Mapping[str, str] | None = None) -> Ran:
    """Run a script in `folder`, with further programs by name. Whatever it leaves running is ended."""
    marks = folder / "marks"
    programs = folder / "programs"
    for made in (marks, programs):
        made.mkdir()
    for name, content in {**_PROGRAMS, **(programs_too or {})}.items():
        (programs / name).write_text(f"#!/bin/sh\n{content}\n", encoding="utf-8")
        (programs / name).chmod(0o755)
    numbers = iter(range(1000))

    def marked(_found: "re.Match[str]") -> str:
        number = next(numbers)
        return f': > "$MARKS/{number}.started"; HOLDFAST_READY="$MARKS/{number}.ready" '

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    calls = folder / "calls"
    calls.touch()
    environment = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "TMPDIR": str(folder),
        "MARKS": str(marks),
        "HOLDFAST_PORT": str(port),
        "HOLDFAST_CALLS": str(calls),
        "HOLDFAST_SOCKET": str(folder / "socket"),
    }
    # The server of calls first, in the same group as the shell, with which it ends.
    script = f"""
"{sys.executable}" "{_SHIM}" < /dev/null > server.log 2>&1 &
until [ -S "$HOLDFAST_SOCKET" ]; do /bin/sleep 0.05; done
{_IN_BACKGROUND.sub(marked, text)}"""
    process = subprocess.Popen(
        ["bash", "-c", script],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=timeout_s)
    finally:
        # A broker that an example forgot, or a deadline that is over.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    ended = [json.loads(line) for line in calls.read_text(encoding="utf-8").splitlines()]
    return Ran(out, err, [(call["call"], call["status"]) for call in ended])
