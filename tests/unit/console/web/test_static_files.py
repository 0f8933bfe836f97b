"""Files of the page."""

import gzip
from pathlib import Path

from starlette.requests import Request

from holdfast.console.web.static_files import StaticFiles, is_page


def request(**headers: str) -> Request:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "headers": raw, "method": "GET", "path": "/"})


def test_files_are_served_with_their_type_a_strong_tag_and_compressed(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/a.js").write_text("export const a = 1;\n" * 200)
    files = StaticFiles(tmp_path)
    plain = files.answer(request(), "parts/a.js")
    packed = files.answer(request(accept_encoding="gzip, br"), "parts/a.js")
    assert plain is not None
    assert packed is not None
    assert plain.headers["content-type"] == "text/javascript; charset=utf-8"
    assert gzip.decompress(bytes(packed.body)) == bytes(plain.body)
    assert len(packed.body) < len(plain.body)
    assert plain.headers["etag"] != packed.headers["etag"]
    assert plain.headers["etag"].startswith('"')
    again = files.answer(request(if_none_match=plain.headers["etag"]), "parts/a.js")
    assert again is not None
    assert (again.status_code, bytes(again.body)) == (304, b"")


def test_only_files_of_the_folder_are_there(tmp_path: Path) -> None:
    inside = tmp_path / "static"
    inside.mkdir()
    (inside / "index.html").write_text("x")
    (tmp_path / "secret").write_text("x")
    files = StaticFiles(inside)
    for name in ("../secret", "/etc/passwd", "", ".", "index.html/", "index.html\0", str(tmp_path / "secret")):
        assert files.answer(request(), name) is None


def test_without_a_folder_there_are_no_files(tmp_path: Path) -> None:
    assert StaticFiles(tmp_path / "nothing").answer(request(), "index.html") is None


def test_paths_of_the_page() -> None:
    assert all(is_page(path) for path in ("/", "/clients", "/clients/a/b", "/time", "/login"))
    assert not any(is_page(path) for path in ("/metrics", "/api", "/clientsx", "/favicon.ico"))
