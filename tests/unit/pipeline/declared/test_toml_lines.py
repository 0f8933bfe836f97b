"""The line of everything in a TOML file, in whatever way it was written."""

import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.pipeline.declared.toml_lines import Path, lines_of

DOCUMENT = '''\
# a comment with [brackets] and "quotes
title = "a # that is no comment"   # and one that is
a.b."c d" = 1
[table]
list = [ 1, "],", # inside
  'x]', { y = 2, z = [3,
  4] } ]
long = """
two lines, and "quotes"" in them\\"""
"""
raw = \'\'\'
[not a table]\'\'\'
when = 2026-07-01 07:32:00
["quoted key".'another']
key = true
[[rows]]
name = "first"
[rows.inner]
k = 1
[[rows]]
name = "second"
[[rows.deep]]
n = 1
[[rows.deep]]
n = 2
'''


def paths(found: Any, at: Path = ()) -> set[Path]:
    """Everything that `tomllib` finds."""
    pairs: list[tuple[Any, Any]] = []
    if isinstance(found, dict):
        pairs = list(found.items())
    elif isinstance(found, list):
        pairs = list(enumerate(found))
    inner = {path for key, value in pairs for path in paths(value, (*at, key))}
    return inner | ({at} if at else set())


def test_everything_has_the_line_on_which_it_stands() -> None:
    lines = lines_of(DOCUMENT)
    assert set(lines) == paths(tomllib.loads(DOCUMENT))
    texts = DOCUMENT.splitlines()
    assert texts[lines["title",] - 1].startswith("title")
    assert lines["a", "b", "c d"] == 3
    assert lines["table", "list", 3, "z", 1] == 7
    assert texts[lines["table", "raw"] - 1] == "raw = '''"
    assert texts[lines["quoted key", "another", "key"] - 1] == "key = true"
    assert texts[lines["rows", 1, "name"] - 1] == 'name = "second"'
    assert texts[lines["rows", 1, "deep", 1, "n"] - 1] == "n = 2"
    assert texts[lines["rows", 0, "inner", "k"] - 1] == "k = 1"


NAMES = st.from_regex(r"[a-z][a-z_-]{0,5}", fullmatch=True)
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=12)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _long(text: str) -> str:
    return '"""\n' + text.replace("\\", "\\\\").replace('"', '\\"') + '\n"""'


SCALARS = st.one_of(
    st.integers(-9, 99).map(str),
    st.booleans().map(lambda value: str(value).lower()),
    TEXTS.map(_quoted),
    TEXTS.filter(lambda text: "'" not in text).map(lambda text: f"'{text}'"),
)
SPACES = st.sampled_from(["", " ", "\n", " # it's [\n", "\n\n\t"])


@st.composite
def arrays(draw: st.DrawFn, values: st.SearchStrategy[str]) -> str:
    items = draw(st.lists(values, max_size=3))
    end = draw(st.sampled_from(["", ","])) if items else ""
    return "[" + draw(SPACES) + f",{draw(SPACES)}".join(items) + end + draw(SPACES) + "]"


@st.composite
def inlines(draw: st.DrawFn, values: st.SearchStrategy[str]) -> str:
    names = draw(st.lists(NAMES, max_size=3, unique=True))
    return "{ " + ", ".join(f"{name} = {draw(values)}" for name in names) + " }"


ONE_LINE = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3).map(", ".join).map("[{}]".format) | inlines(inner), max_leaves=6
)
VALUES = st.one_of(ONE_LINE, arrays(ONE_LINE), TEXTS.map(_long))

DEEPER = ["", ".deep", ' . "q r"']


@st.composite
def documents(draw: st.DrawFn) -> str:
    lines: list[str] = []
    for number in range(draw(st.integers(0, 4))):
        header = draw(st.sampled_from(["[t{0}]", "[[t]]", "[ x{0} . 'y z' ]", "[[ t.u ]]"])).format(number)
        if header == "[[ t.u ]]" and "[[t]]" not in lines:
            header = "[[t]]"
        lines.append(header)
        names = draw(st.lists(NAMES.filter(lambda name: name != "u"), max_size=3, unique=True))
        lines += [f"{name}{draw(st.sampled_from(DEEPER))} = {draw(VALUES)}" for name in names]
        lines += draw(st.sampled_from([[], [""], ["# [[t]]"]]))
    return "\n".join(lines)


@given(documents())
def test_nothing_that_tomllib_finds_is_without_a_line(text: str) -> None:
    lines = lines_of(text)
    assert set(lines) == paths(tomllib.loads(text))
    for path, line in lines.items():
        key = next(part for part in reversed(path) if isinstance(part, str))
        # An element stands below the name of its array.
        assert isinstance(path[-1], int) or key in text.splitlines()[line - 1]
