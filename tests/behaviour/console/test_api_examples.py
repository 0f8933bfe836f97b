"""The whole API against its OpenAPI document: requests that schemathesis makes of it, right ones and wrong ones.

No answer is a failure of the server, and each has a status, a content type and a body that the document names. The
seed is fixed, so that a run finds what the run before it found.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from holdfast.files.token_file import add_token
from tests.behaviour.console.test_console_process import Place, place
from tests.services import need

# Requests wait for each other, for syncs of the audit file and for the history process.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

_CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)
#: Names that there are, so that requests get past 404.
_KNOWN = """\
[parameters]
"path.id" = "press/1"
"path.name" = "broker_away"
"path.kind" = "client"
"path.value" = "nobody"
"query.filter" = "plant/#"
"query.topic" = "plant/1/temp"
"""


@contextmanager
def busy_place(folder: Path) -> Iterator[tuple[Place, str]]:
    """A broker with a client, messages and retained messages, its console, and a token that may do everything."""
    tokens = folder / "tokens"
    token = add_token(tokens, "examples", role="admin")
    with place(folder, f"console.token_file={tokens}") as here:
        client = paho.Client(CallbackAPIVersion.VERSION2, client_id="press/1", clean_session=False)
        client.connect("127.0.0.1", here.port)
        client.loop_start()
        client.subscribe("plant/#", 1)
        for number in range(20):
            sent = client.publish(f"plant/{number % 3}/temp", b'{"t": %d}' % number, qos=1, retain=number % 7 == 0)
            sent.wait_for_publish(60)
        yield here, token
        client.disconnect()
        client.loop_stop()


def check_examples(folder: Path, here: Place, token: str, phases: str) -> None:
    program = need("schemathesis", "schemathesis, which make dev puts into .services", "run")
    # One worker: on Python 3.11 two threads that parse source text at the same time fail.
    made = subprocess.run(
        [
            *(program, "--config-file", "schemathesis.toml", "run"),
            f"http://127.0.0.1:{here.console_port}/api/v1/openapi.json",
            *("--header", f"Authorization: Bearer {token}", "--header", "X-Holdfast: 1"),
            # It answers until its reader leaves.
            *("--exclude-path", "/api/v1/stream"),
            *("--checks", ",".join(_CHECKS), "--phases", phases, "--max-examples", "10", "--seed", "1"),
            *("--workers", "1", "--generation-database", "none", "--continue-on-failure", "--warnings", "off"),
            *("--no-color", "--request-timeout", "60"),
        ],
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stdout[-8000:] + made.stderr[-2000:]
    assert " passed" in made.stdout
    assert here.broker.said("a request to the console failed") == []
    assert here.ask("GET", "/healthz")[0] == 200


@pytest.mark.parametrize(
    ("known", "phases"),
    [
        pytest.param(_KNOWN, "coverage,fuzzing", id="names there are"),
        pytest.param("", "fuzzing", id="names of any text"),
    ],
)
def test_every_answer_is_one_that_the_document_names(tmp_path: Path, known: str, phases: str) -> None:
    (tmp_path / "schemathesis.toml").write_text(known)
    with busy_place(tmp_path) as (here, token):
        check_examples(tmp_path, here, token, phases)
