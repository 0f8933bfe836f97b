"""What other users and processes of the machine learn of a broker and its console: nothing that they may not."""

import http.client
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import paho.mqtt.client as paho
import psutil  # type: ignore[import-untyped]
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from holdfast.broker.access.passwords import set_password
from holdfast.console.access.credential_files import set_user
from holdfast.files.token_file import add_token
from tests.behaviour.console.test_console_process import Place, holdfast, place
from tests.history.processes import until

pytestmark = pytest.mark.slow

#: The user `nobody`.
NOBODY = 65534
_CONNECT = """
import os, socket, sys
peer = socket.socket(socket.AF_UNIX)
user = int(sys.argv[2])
os.setgroups([])
os.setresgid(user, user, user)
os.setresuid(user, user, user)
try:
    peer.connect(sys.argv[1])
    peer.settimeout(30)
    print(len(peer.recv(100)))
except OSError as error:
    print(type(error).__name__)
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may look into, unlike that of the tests."""
    with tempfile.TemporaryDirectory() as made:
        os.chmod(made, 0o755)
        yield Path(made)


def words_of(here: Place) -> bytes:
    """The arguments of the broker and of all processes that work for it, as the process list shows them."""
    assert here.broker.process is not None
    broker = psutil.Process(here.broker.process.pid)
    return b"\n".join(
        Path(f"/proc/{process.pid}/cmdline").read_bytes() for process in (broker, *broker.children(recursive=True))
    )


def test_no_secret_is_in_the_process_list_or_in_a_file_that_others_may_read(tmp_path: Path) -> None:
    set_password(tmp_path / "passwords", "eva", b"pl4nted-mqtt")
    set_user(tmp_path / "users", "eva", "admin", "pl4nted-console")
    token = add_token(tmp_path / "tokens", "ci", role="reader")
    files = (
        f"security.password_file={tmp_path / 'passwords'}",
        f"console.user_file={tmp_path / 'users'}",
        f"console.token_file={tmp_path / 'tokens'}",
    )
    with place(tmp_path, *files) as here:
        link = holdfast("console", "open", "--data", str(here.data)).partition("=")[2]
        assert here.ask("POST", "/api/v1/login", {"name": "eva", "password": "pl4nted-console"})[0] == 200
        client = paho.Client(CallbackAPIVersion.VERSION2, client_id="p")
        client.username_pw_set("eva", "pl4nted-mqtt")
        client.connect("127.0.0.1", here.port)
        client.loop_start()
        for number in range(3):
            client.publish("plant/1", str(number), qos=1).wait_for_publish(30)
        client.disconnect()
        client.loop_stop()
        job = {"kind": "replay", "filter": "plant/#", "from": "earliest", "speed": "0.000001"}
        job |= {"user": "eva", "password": "pl4nted-mqtt"}
        assert here.ask("POST", "/api/v1/jobs", job)[0] == 200
        until(lambda: here.ask("GET", "/api/v1/jobs")[1]["items"][0]["messages"] == 1, "the job plays")
        words = words_of(here)
        assert b"holdfast.cli.job" in words
        assert b"console_main" in words
        secrets = [
            b"pl4nted-mqtt",
            b"pl4nted-console",
            token.encode(),
            link.encode(),
            here.cookie.partition("=")[2].encode(),
        ]
        assert not [secret for secret in secrets if secret in words]
        for path in here.data.rglob("*"):
            if path.is_file() and path.stat().st_mode & 0o077:
                content = path.read_bytes()
                assert not [secret for secret in secrets if secret in content], path


def connect_as_nobody(path: Path) -> str:
    """How many bytes another user is told at a socket, or why none."""
    # It becomes that user by itself: who may not read Python cannot start it.
    program = [sys.executable, "-I", "-c", _CONNECT, str(path), str(NOBODY)]
    return subprocess.run(program, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user; run the tests as root")
def test_another_user_gets_nothing_through_sockets_and_port(open_folder: Path) -> None:
    with place(open_folder) as here:
        # Not even where somebody has opened the folder and the sockets.
        here.data.chmod(0o755)
        until(lambda: here.printed_link(), "the link is printed")
        assert here.log_in(here.printed_link()) == 200
        until(lambda: here.ask("GET", "/api/v1/history/zones")[0] == 200, "the history process serves")
        for name in ("control.sock", "history.sock"):
            path = here.data / name
            assert connect_as_nobody(path) == "PermissionError", name
            path.chmod(0o777)
            # The kernel says who it is: the connection is closed without a word.
            assert connect_as_nobody(path) in ("0", "ConnectionResetError", "BrokenPipeError"), name
        here.cookie = ""
        for target in ("/api/v1/stats", "/api/v1/clients", "/api/v1/history/zones", "/api/v1/stream", "/metrics"):
            assert here.ask("GET", target)[0] == 401, target
        connection = http.client.HTTPConnection("127.0.0.1", here.console_port, timeout=30)
        connection.request("GET", "/api/v1/stats", headers={"Host": "rebound.example"})
        assert connection.getresponse().status == 403
        connection.close()
        with socket.socket(socket.AF_UNIX) as mine:
            mine.connect(str(here.data / "control.sock"))
            assert mine.recv(100), "its own user is greeted"
