"""The files of the page: read from the package once, served by name from memory.

A name that is not in the list is not there: no path leads out of the folder. Compressed bytes are made with the first
request for them.
"""

import gzip
import hashlib
import mimetypes
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

_FOLDER: Final = Path(__file__).parents[1] / "static"
#: Paths of the page itself, which all show the same document.
PAGES: Final = frozenset(
    {"", "clients", "subscriptions", "time", "events", "health", "login", "cluster", "topics", "retained", "storage"}
)
#: Below this, compressing saves nothing.
_LEAST_BYTES: Final = 1000
_TYPES: Final = {".js": "text/javascript", ".mjs": "text/javascript", ".woff2": "font/woff2", ".svg": "image/svg+xml"}


@dataclass(frozen=True)
class StaticFile:
    data: bytes
    content_type: str

    @cached_property
    def tag(self) -> str:
        return hashlib.sha256(self.data).hexdigest()[:32]

    @cached_property
    def compressed(self) -> bytes:
        return gzip.compress(self.data, mtime=0)


class StaticFiles:
    """The files of a folder, by their names below it."""

    def __init__(self, folder: Path = _FOLDER) -> None:
        paths = sorted(path for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else []
        self._files: Final = {
            path.relative_to(folder).as_posix(): StaticFile(path.read_bytes(), _type_of(path)) for path in paths
        }

    def answer(self, request: Request, name: str) -> Response | None:
        """The file, or 304 if the browser has it; None if there is no such file."""
        file = self._files.get(name)
        if file is None:
            return None
        is_small = len(file.data) < _LEAST_BYTES or file.content_type.startswith(("font/", "image/png"))
        compress = not is_small and "gzip" in request.headers.get("accept-encoding", "")
        tag = f'"{file.tag}{"-gz" if compress else ""}"'
        headers = {"ETag": tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        known = [one.strip() for one in request.headers.get("if-none-match", "").split(",")]
        if tag in known:
            return Response(status_code=304, headers=headers)
        if compress:
            headers["Content-Encoding"] = "gzip"
        return Response(file.compressed if compress else file.data, media_type=file.content_type, headers=headers)


def is_page(path: str) -> bool:
    """Whether a path is one of the page: `/clients`, `/clients/ID`, …"""
    return path.strip("/").partition("/")[0] in PAGES


def _type_of(path: Path) -> str:
    found = _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return f"{found}; charset=utf-8" if found.startswith("text/") else found
