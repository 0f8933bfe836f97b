"""`holdfast` as shell examples of the documents call it: the tree under test, on a port of its own.

holdfast_shim.py VERB …      one call, in this process
holdfast_shim.py             a server: it has imported everything, and makes each call in a fork of itself, with the
                             arguments, the folder, the environment and the three standard files of who asks

HOLDFAST_PORT      instead of 1883
HOLDFAST_CALLS     a file that gets a line of JSON for each call that ended: its arguments and its exit status
HOLDFAST_READY     a file to make when a broker listens, or when a subscriber is subscribed
HOLDFAST_SOCKET    where the server is asked; `holdfast_asker.py` asks
"""

import json
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

import typer

from holdfast.cli.main import app

_echo = typer.echo


def _ready() -> None:
    if "HOLDFAST_READY" in os.environ:
        Path(os.environ["HOLDFAST_READY"]).touch()


def _wait_for_listener() -> None:
    while True:
        try:
            socket.create_connection(("127.0.0.1", int(os.environ["HOLDFAST_PORT"]))).close()
        except OSError:
            time.sleep(0.02)
        else:
            return _ready()


def _noticing(message: Any = None, *arguments: Any, **options: Any) -> None:
    _echo(message, *arguments, **options)
    if str(message).startswith("subscribed to "):
        _ready()


def call(verb: str, *rest: str) -> int:
    """One call of the command; its exit status."""
    port = ["--port", os.environ["HOLDFAST_PORT"]] if verb in ("serve", "pub", "sub", "replay") else []
    if verb == "serve":
        threading.Thread(target=_wait_for_listener, daemon=True).start()
    typer.echo = _noticing
    status: Any = 1
    try:
        app([verb, *port, *rest])
    except SystemExit as end:
        status = end.code or 0
    sys.stdout.flush()
    sys.stderr.flush()
    with Path(os.environ["HOLDFAST_CALLS"]).open("a", encoding="utf-8") as calls:
        calls.write(json.dumps({"call": " ".join([verb, *rest]), "status": status}) + "\n")
    return int(status)


def serve_calls() -> None:
    """Until it is killed."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        place = os.environ["HOLDFAST_SOCKET"]
        listener.bind(f"{place}.new")
        listener.listen()
        os.rename(f"{place}.new", place)  # who sees it is heard
        while True:
            asker, _address = listener.accept()
            if os.fork() == 0:
                listener.close()
                _answer(asker)
            asker.close()


def _answer(asker: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    status = 1
    try:
        packed, files, _flags, _address = socket.recv_fds(asker, 1_000_000, 3)
        question = json.loads(packed)
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        os.chdir(question["folder"])
        os.environ.clear()
        os.environ.update(question["environment"])
        status = call(*question["arguments"])
    finally:
        asker.send(bytes([status]))
        os._exit(status)


if __name__ == "__main__":
    if sys.argv[1:]:
        raise SystemExit(call(*sys.argv[1:]))
    serve_calls()
