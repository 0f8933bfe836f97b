"""Ports on loopback that programs which run side by side do not choose twice."""

from __future__ import annotations

import fcntl
import os
import random
import re
import socket
import tempfile
from contextlib import suppress
from pathlib import Path

#: Below the ports that the system gives to clients. A client that tries to reach a server that is away may be given the
#: very port it connects to; then it talks to itself, and the restarted server cannot have its port back.
_FIRST, _LAST = 10_000, 31_999
#: Not the seeded one: programs that run side by side would choose the same.
_CHANCE = random.SystemRandom()
#: A line that a killed process wrote half is none.
_LINE = re.compile(r"^(\d+) (\d+)\n", re.MULTILINE)


def free_port() -> int:
    """A port for a server that may start later, and again: it stays reserved while this process lives.

    A port that is free now may be taken before its server starts. All processes therefore write the ports they chose
    into one file, `port pid` in each line, and none chooses what a living one has chosen.
    """
    with _reservations().open("a+", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        chosen = {int(port): int(pid) for port, pid in _LINE.findall(file.read())}
        reserved = {port: pid for port, pid in chosen.items() if _lives(pid)}
        port = _unused(reserved)
        file.truncate(0)
        file.writelines(f"{number} {pid}\n" for number, pid in {**reserved, port: os.getpid()}.items())
    return port


def _reservations() -> Path:
    return Path(tempfile.gettempdir()) / f"holdfast-ports-{os.getuid()}"


def _unused(reserved: dict[int, int]) -> int:
    while True:
        port = _CHANCE.randint(_FIRST, _LAST)
        if port in reserved:
            continue
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
