"""amqtt, in a separate environment: its pinned dependencies conflict with those of Holdfast."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from bench.brokers.processes import UnavailableError
from bench.checkout import ROOT

_VERSION = "0.12.1"
_FOLDER = ROOT / ".build" / "peers" / "amqtt"

#: Its own command logs every connection; this one logs errors.
_PROGRAM = """\
import asyncio, json, logging, sys
from amqtt.broker import Broker

async def serve():
    broker = Broker(json.loads(sys.argv[1]))
    await broker.start()
    await asyncio.Event().wait()

logging.basicConfig(level=logging.ERROR)
asyncio.run(serve())
"""


def interpreter(*, install: bool) -> Path:
    """The Python that has it; made on demand if `install`. UnavailableError if that fails."""
    python = _FOLDER / "bin" / "python"
    stamp = _FOLDER / f"amqtt-{_VERSION}"
    if stamp.exists():
        return python
    if not install:
        raise UnavailableError("is not installed; a full run does that")
    shutil.rmtree(_FOLDER, ignore_errors=True)
    _FOLDER.parent.mkdir(parents=True, exist_ok=True)
    pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    for command in ([sys.executable, "-m", "venv", str(_FOLDER)], [*pip, "install", f"amqtt=={_VERSION}"]):
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            lines = done.stderr.strip().splitlines()
            raise UnavailableError(f"cannot be installed: {lines[-1] if lines else command}")
    stamp.touch()
    return python


def command(python: Path, port: int) -> list[str]:
    config = {
        "listeners": {"default": {"type": "tcp", "bind": f"127.0.0.1:{port}", "max_connections": 0}},
        "plugins": {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}},
    }
    return [str(python), "-c", _PROGRAM, json.dumps(config)]
