"""What the console adds to an installation, and what a browser loads at its first start."""

from __future__ import annotations

import gzip
import http.client
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from urllib.parse import urljoin, urlsplit

from bench.checkout import ROOT

#: What Holdfast requires for the console alone.
CONSOLE_PACKAGES = ("starlette", "uvicorn")
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_LINK = re.compile(r'(?:href|src)="(/static/[^"]+)"')
#: Static imports of a module; those of a comment or of a page that is loaded later are written in brackets.
_IMPORT = re.compile(r'(?:\bfrom|\bimport)\s*"(\.[^"]+)"')
#: The page that is shown first is loaded by name.
_FIRST_PAGE = "/static/pages/overview.js"

Find = Callable[[str], Distribution]


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def required(requirements: Iterable[str]) -> Iterator[str]:
    """The names of requirements that hold without extras, on this system."""
    for requirement in requirements:
        wanted, _, marker = requirement.partition(";")
        name = _NAME.match(wanted)
        if name is not None and "extra" not in marker and "win32" not in marker and "python_version" not in marker:
            yield canonical(name[0])


def closure(names: Iterable[str], find: Find = distribution) -> set[str]:
    """All that is installed for some packages, they included."""
    there: set[str] = set()
    waiting = [canonical(name) for name in names]
    while waiting:
        name = waiting.pop()
        if name in there:
            continue
        try:
            found = find(name)
        except PackageNotFoundError:
            continue  # not for this system
        there.add(name)
        waiting += required(found.requires or ())
    return there


def new_packages(requirements: Iterable[str], find: Find = distribution) -> set[str]:
    """What a plain install with these requirements has for the console alone."""
    others = [name for name in required(requirements) if name not in CONSOLE_PACKAGES]
    return closure(CONSOLE_PACKAGES, find) - closure(others, find)


def size_bytes(name: str) -> int:
    """Of the files that came with a package, without those that Python made of them."""
    files = distribution(name).files or ()
    return sum(file.size or 0 for file in files if file.suffix != ".pyc")


def packages() -> Iterator[tuple[str, float]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    names = new_packages(settings["project"]["dependencies"])
    yield "packages/count", float(len(names))
    yield "packages/size_mb", sum(size_bytes(name) for name in names) / 1e6


def page_files(fetch: Callable[[str], str]) -> set[str]:
    """The paths that a browser loads for the overview. `fetch` gives the text of one."""
    there: set[str] = set()
    waiting = ["/"]
    while waiting:
        path = waiting.pop()
        if path in there:
            continue
        there.add(path)
        text = fetch(path)
        if path == "/":
            waiting += [*_LINK.findall(text), _FIRST_PAGE]
        elif path.endswith(".js"):
            waiting += [urljoin(path, name) for name in _IMPORT.findall(text)]
    return there


def page(url: str) -> Iterator[tuple[str, float]]:
    address = urlsplit(url)
    assert address.hostname is not None
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=30)

    sizes: list[int] = []

    def load(path: str) -> str:
        connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
        response = connection.getresponse()
        body = response.read()
        if response.status != http.client.OK:
            raise SystemExit(f"{path}: {response.status}")
        sizes.append(len(body) + sum(len(name) + len(value) + 4 for name, value in response.getheaders()))
        return (gzip.decompress(body) if response.getheader("Content-Encoding") == "gzip" else body).decode()

    page_files(load)
    connection.close()
    yield "page/size_kb", sum(sizes) / 1000
