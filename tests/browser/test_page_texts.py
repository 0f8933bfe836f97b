"""Each text of the page is shown somewhere, and each that is shown is there."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast.exchange import drops
from holdfast.exchange.drops import REASONS
from tests.services import need

PAGES = Path(__file__).resolve().parents[2] / "src" / "holdfast" / "console" / "static"
#: What is found by a word of an answer: texts, and objects of which all texts are taken to be shown.
BY_DATA = {
    "bar.theme",
    "blocks.durations",
    "blocks.kinds",
    "cluster.paths",
    "cluster.states",
    "play.states",
    "selection.block",
    "selection.end",
    "selection.kick",
    "state.refusing",
    "state.starting",
    "state.stopping",
    "state.taking",
    "state.unknown",
}


def paths(value: Any, above: str = "") -> Iterator[str]:
    """The names of all texts, such as `overview.title`."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from paths(inner, f"{above}.{name}" if above else name)
    else:
        yield above


def read_texts(source: Path, folder: Path) -> list[str]:
    module = folder / "texts.mjs"
    module.write_bytes(source.read_bytes())
    # A function is a text with something in it.
    program = (
        f"import {{ T }} from {json.dumps(module.as_uri())};"
        "console.log(JSON.stringify(T, (key, value) => typeof value === 'function' ? '' : value));"
    )
    command = [need("node", "nodejs"), "--input-type=module", "-e", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return list(paths(json.loads(done.stdout)))


def find_unused(texts: list[str], sources: list[str]) -> list[str]:
    unused = []
    for text in texts:
        # Of a list, all are shown or none.
        name = re.sub(r"\.\d+$", "", text)
        parent, _dot, word = name.rpartition(".")
        if BY_DATA & {name, parent}:
            continue
        by_word = rf"\bT\.{re.escape(parent)}\["
        shown = rf"\bT\.{re.escape(name)}\b"
        if not any(
            re.search(shown, source)
            # `T.events[name]`, beside a list with this word.
            or (
                re.search(by_word, source) and re.search(rf"[\"'`]{re.escape(word)}[\"'`]|\b{re.escape(word)}:", source)
            )
            for source in sources
        ):
            unused.append(name)
    return unused


def sources_of(folder: Path) -> list[str]:
    """The modules of the page, with the whole name of each text: `const C = T.cluster` is a shorter one."""
    found = []
    for path in folder.rglob("*.js"):
        if "vendor" in path.parts or path.name == "texts.js":
            continue
        source = path.read_text(encoding="utf-8")
        for short, long in set(re.findall(r"const (\w+) = (T\.[\w.]+);", source)):
            source = re.sub(rf"(?<!\w)(?<![\w\])]\.){short}\.", f"{long}.", source)
        found.append(source)
    return found


def test_each_text_is_shown_somewhere(tmp_path: Path) -> None:
    assert find_unused(read_texts(PAGES / "texts.js", tmp_path), sources_of(PAGES)) == []


def test_a_text_that_is_not_shown_is_found(tmp_path: Path) -> None:
    texts = read_texts(PAGES / "texts.js", tmp_path)
    assert find_unused([*texts, "overview.cpu"], sources_of(PAGES)) == ["overview.cpu"]
    without = [source.replace("T.overview.title", "") for source in sources_of(PAGES)]
    assert find_unused(texts, without) == ["overview.title"]


def test_each_text_that_is_named_is_there(tmp_path: Path) -> None:
    texts = read_texts(PAGES / "texts.js", tmp_path)
    known = {*texts, *(text.rpartition(".")[0] for text in texts)}
    known |= {one.rpartition(".")[0] for one in known}
    named = {name for source in sources_of(PAGES) for name in re.findall(r"\bT((?:\.[A-Za-z]\w*)+)", source)}
    named = {re.sub(r"\.(length|map|toLowerCase)$", "", name[1:]) for name in named}
    assert named - known == set()


def test_the_page_knows_which_events_are_drops() -> None:
    source = (PAGES / "pages" / "overview_panels.js").read_text(encoding="utf-8")
    no_drops = set(re.findall(r'"(\w+)"', source.partition("NO_DROPS = new Set([")[2].partition("]")[0]))
    names = {value for name, value in vars(drops).items() if name.startswith("DROP_")}
    assert no_drops == set(REASONS) - names
