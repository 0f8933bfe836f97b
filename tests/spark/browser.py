"""A real browser without a window, driven by its own debugging protocol: opens a page and tells what happened there."""

import base64
import json
import subprocess
import threading
from collections import deque
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from websockets.sync.client import connect

from tests.services import need

#: Seconds that anything may take. Generous: machines that test are busy.
DEADLINE_S = 90.0
_LISTENS = "DevTools listening on "


class Browser:
    """Chromium with one tab, and a profile that is thrown away."""

    def __init__(self, folder: Path) -> None:
        self._profile = folder / "profile"
        command = [need("chromium", "chromium"), "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"]
        command += ["--remote-debugging-port=0", f"--user-data-dir={self._profile}", "about:blank"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        #: What the page and the browser had to complain about, and what was fetched.
        self.complaints: list[str] = []
        self.fetched: list[str] = []
        self._loaded = False
        self._number = 0
        self._drain: threading.Thread | None = None
        self._open = ExitStack()
        self._open.callback(self._end)
        try:
            self._tab = self._open.enter_context(connect(self._address(), max_size=None, open_timeout=DEADLINE_S))
            for domain in ("Page", "Runtime", "Log", "Network"):
                self._call(f"{domain}.enable")
        except BaseException:
            self._open.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        if self._drain is not None:
            self._drain.join(DEADLINE_S)
        if self._process.stderr is not None:
            self._process.stderr.close()

    def open(self, page: Path, *, dark: bool = False, width: int = 1160) -> None:
        """Show a file, and wait until it is there."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self._loaded = False
        self._call("Page.navigate", url=page.as_uri())
        while not self._loaded:
            self._hear()

    def ask(self, expression: str) -> Any:
        """The value of JavaScript in the page."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def picture(self, path: Path) -> None:
        """The whole page as a PNG."""
        shot = self._call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def _address(self) -> str:
        """Of the tab; the browser says where it listens, and is read on, or it would stop when the pipe is full."""
        assert self._process.stderr is not None
        lines = iter(self._process.stderr)
        whole_address = next((line.split()[-1] for line in lines if line.startswith(_LISTENS)), "")
        assert whole_address, "the browser has ended"
        self._drain = threading.Thread(target=lambda: deque(lines, 0), daemon=True)
        self._drain.start()
        address = whole_address.split("/devtools/")[0]
        with connect(whole_address, open_timeout=DEADLINE_S) as whole:
            whole.send(json.dumps({"id": 1, "method": "Target.getTargets"}))
            targets = json.loads(whole.recv(DEADLINE_S))["result"]["targetInfos"]
        (tab,) = [target["targetId"] for target in targets if target["type"] == "page"]
        return f"{address}/devtools/page/{tab}"

    def _call(self, method: str, **given: Any) -> dict[str, Any]:
        self._number += 1
        self._tab.send(json.dumps({"id": self._number, "method": method, "params": given}))
        while True:
            heard = self._hear()
            if heard.get("id") == self._number:
                assert "error" not in heard, heard
                result: dict[str, Any] = heard["result"]
                return result

    def _hear(self) -> dict[str, Any]:
        heard: dict[str, Any] = json.loads(self._tab.recv(DEADLINE_S))
        given = heard.get("params", {})
        match heard.get("method"):
            case "Page.loadEventFired":
                self._loaded = True
            case "Runtime.consoleAPICalled" | "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(given))
            case "Log.entryAdded":
                self.complaints.append(given["entry"]["text"])
            case "Network.requestWillBeSent":
                self.fetched.append(given["request"]["url"])
        return heard
