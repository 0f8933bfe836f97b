"""The pages hang together: links lead somewhere, the index leads to every page, and named modules exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
INDEX = DOCS / "index.md"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
#: Pages that say where things are in the present sources. Decision records say where they were.
NAMING_MODULES = [ROOT / "README.md", INDEX, DOCS / "glossary.md", *sorted((DOCS / "architecture").glob("*.md"))]
FOREIGN_CLASSES = {"Protocol"}
SOURCES = ROOT / "src" / "holdfast"
PACKAGES = sorted(path.name for path in SOURCES.iterdir() if (path / "__init__.py").exists())

_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([^`\n]+)`")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_PATH = re.compile(r"(?:[\w.]+/)+(?:[\w.]+)?")
_CLASS = re.compile(r"([A-Z][a-z]+(?:[A-Z][a-z]+)*)(?:\.(\w+))?")
_DOTTED = re.compile(r"[a-z_]\w*(?:\.[a-z_]\w*)+")


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def anchors_of(page: Path) -> set[str]:
    """The anchors that GitHub makes of the headings of a page."""
    headings = _HEADING.findall(_FENCE.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead_links(page: Path) -> list[str]:
    dead = []
    for link in _LINK.findall(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors_of(target)):
            dead.append(link)
    return dead


def is_module(dotted: str) -> bool:
    """Whether `exchange.early` is a module, or `broker.deadlines.next` something inside of one."""
    parts = dotted.removeprefix("holdfast.").split(".")
    return (
        any((SOURCES.joinpath(*parts[:length]).with_suffix(".py")).exists() for length in range(2, len(parts) + 1))
        or (SOURCES.joinpath(*parts) / "__init__.py").exists()
    )


def missing_modules(page: Path) -> list[str]:
    """Paths and dotted names of modules, in code, that do not exist; keys of settings may look like the latter."""
    settings = set(_CODE.findall((DOCS / "settings.md").read_text(encoding="utf-8")))
    text = page.read_text(encoding="utf-8")
    fenced = [found for fence in _FENCE.findall(text) for found in re.findall(r"\S+/\S*\.py", fence)]
    missing = []
    for code in [*_CODE.findall(_FENCE.sub("", text)), *fenced]:
        if _PATH.fullmatch(code) and code.split("/")[0] in {*PACKAGES, "tests", "scripts", "bench", "examples", "docs"}:
            exists = any((base / code).exists() for base in (ROOT, SOURCES))
        elif _DOTTED.fullmatch(code) and code.removeprefix("holdfast.").split(".")[0] in PACKAGES:
            exists = is_module(code) or code in settings
        else:
            continue
        if not exists:
            missing.append(code)
    return missing


def missing_classes(page: Path) -> list[str]:
    """Classes, and methods of classes, that a page names in code and no module defines."""
    sources = "".join(path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py"))
    missing = []
    for code in _CODE.findall(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        found = _CLASS.fullmatch(code)
        if found is None or code in FOREIGN_CLASSES:
            continue
        defined = re.search(rf"^class {found[1]}\b", sources, re.MULTILINE)
        if defined is None or (found[2] and not re.search(rf"\bdef {found[2]}\b", sources)):
            missing.append(code)
    return missing


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_leads_to_a_page_and_its_heading(page: Path) -> None:
    assert dead_links(page) == []


@pytest.mark.parametrize("page", NAMING_MODULES, ids=name)
def test_every_module_and_class_that_a_page_names_exists(page: Path) -> None:
    assert missing_modules(page) == []
    assert missing_classes(page) == []


def test_log_lines_that_are_to_be_monitored_exist() -> None:
    named = re.findall(r"^\| log (.*?) \|", (DOCS / "deployment.md").read_text(encoding="utf-8"), re.MULTILINE)
    lines = [line for row in named for line in _CODE.findall(row) if " " in line]
    sources = "".join(path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py"))

    assert len(lines) > 10
    assert [line for line in lines if f'"{line}"' not in sources] == []


def test_the_index_leads_to_every_page() -> None:
    linked = {(INDEX.parent / link.partition("#")[0]).resolve() for link in _LINK.findall(INDEX.read_text())}
    # Decisions and examples have an index page of their own.
    wanted = [page for page in PAGES if page.parent not in (DOCS / "adr", DOCS / "examples") and page != INDEX]
    wanted += [DOCS / "adr" / "README.md", DOCS / "examples" / "README.md"]

    assert [name(page) for page in wanted if page not in linked] == []


@pytest.mark.parametrize("folder", ["adr", "examples"])
def test_decisions_and_examples_are_listed(folder: str) -> None:
    listed = (DOCS / folder / "README.md").read_text(encoding="utf-8")

    assert [page.name for page in (DOCS / folder).glob("*.md") if f"({page.name})" not in listed] == ["README.md"]


@pytest.mark.parametrize("page", [ROOT / "README.md", DOCS / "architecture" / "overview.md"], ids=name)
def test_the_tree_of_the_sources_is_true(page: Path) -> None:
    """Every package stands in the tree, and no other."""
    tree = re.search(r"^src/holdfast/\n((?:  .*\n)*)", page.read_text(encoding="utf-8"), re.MULTILINE)

    assert tree is not None
    assert sorted(re.findall(r"^  (\w+)/", tree[1], re.MULTILINE)) == PACKAGES
