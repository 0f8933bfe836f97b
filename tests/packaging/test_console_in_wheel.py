"""A wheel has the whole console: it is served without Node, a compiler, and the sources."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from bench.ports import free_port
from tests.packaging.test_build import ROOT, build, checkout, wheel_of

pytestmark = [pytest.mark.packaging, pytest.mark.slow, pytest.mark.timeout(600)]

__all__ = ["checkout"]

STATIC = ROOT / "src/holdfast/console/static"


def ask(
    netloc: str, method: str, target: str, body: object = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(netloc, timeout=30)
    try:
        data = b"" if body is None else json.dumps(body).encode()
        connection.request(method, target, data, {"Content-Type": "application/json", **headers})
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def test_an_installed_wheel_serves_the_console(checkout: Path, tmp_path: Path) -> None:
    built = build(checkout, HOLDFAST_BUILD="pure")
    assert built.returncode == 0, built.stderr
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel_of(checkout)) as archive:
        archive.extractall(installed)
    environment = {name: value for name, value in os.environ.items() if name != "PATH" and "HOLDFAST" not in name}
    environment |= {"PYTHONPATH": str(installed), "PATH": "/nonexistent"}
    program = "import holdfast, sys; print(holdfast.__file__); from holdfast.cli.main import main; main()"
    settings = [f"console.port={free_port()}", "console.enabled=true"]
    words = ["serve", "--data", str(tmp_path / "data"), "--port", str(free_port())]
    words += [word for setting in settings for word in ("--set", setting)]
    process = subprocess.Popen(
        [sys.executable, "-c", program, *words], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(str(installed))
        link = next(found[0] for line in process.stdout if (found := re.search(r"http://\S+/login#token=\S+", line)))
        netloc = urlsplit(link).netloc
        status, _headers, page = ask(netloc, "GET", "/")
        assert (status, page) == (200, (STATIC / "index.html").read_bytes())
        for file in [path for path in STATIC.rglob("*") if path.suffix in (".js", ".css", ".svg")]:
            status, _headers, content = ask(netloc, "GET", f"/static/{file.relative_to(STATIC)}")
            assert (status, content) == (200, file.read_bytes()), file
        token = link.partition("#token=")[2]
        login = {"X-Holdfast": "1", "Sec-Fetch-Site": "same-origin"}
        status, headers, _body = ask(netloc, "POST", "/api/v1/login", {"link": token}, **login)
        assert status == 200
        cookie = headers["set-cookie"].partition(";")[0]
        status, _headers, body = ask(netloc, "GET", "/api/v1/node", Cookie=cookie)
        assert (status, json.loads(body)["state"]) == (200, "taking")
    finally:
        process.terminate()
        process.communicate()
