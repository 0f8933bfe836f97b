"""Which line of a TOML file says what: `tomllib` gives values without their places.

    lines_of(text)[("rule", 1, "where")]          14

1. Only for text that `tomllib` takes: what is wrong with other text is said by `tomllib`, with its line.
2. Every table, key, and element of an array has a line, in whatever way of TOML it was written.
"""

import re
import tomllib
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

#: Keys, and numbers of elements, from the top of the file.
Path = tuple[str | int, ...]

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_BLANK: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE: Final = re.compile(r"[ \t]*")
_SIMPLE: Final = re.compile(r"[^,\]}#\n]*")
_BASIC: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_LITERAL: Final = re.compile(r"'[^']*'")
_LONG_BASIC: Final = re.compile(r'"""(?:[^"\\]|\\.|"(?!""))*"{3,5}', re.DOTALL)
_LONG_LITERAL: Final = re.compile(r"'''(?:[^']|'(?!''))*'{3,5}", re.DOTALL)


def lines_of(text: str) -> dict[Path, int]:
    """Requires: `tomllib.loads` takes it."""
    return _Scanner(text).run()


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text: Final = text
        self._at = 0
        self._ends: Final = [found.start() for found in re.finditer("\n", text)]
        self._lines: Final[dict[Path, int]] = {}
        #: Elements of arrays of tables so far.
        self._counts: Final[dict[Path, int]] = {}

    def run(self) -> dict[Path, int]:
        table: Path = ()
        while self._skip(_BLANK) and self._at < len(self._text):
            if self._text.startswith("[[", self._at):
                table = self._element()
            elif self._text.startswith("[", self._at):
                table = self._header()
            else:
                self._pair(table)
        return self._lines

    # ---- tables

    def _element(self) -> Path:
        line = self._line()
        self._at += 2
        *parents, last = self._key()
        array = (*self._within((), parents, line), last)
        self._at += 2
        number = self._counts.get(array, 0)
        self._counts[array] = number + 1
        self._note(array, line)
        self._note((*array, number), line)
        return (*array, number)

    def _header(self) -> Path:
        line = self._line()
        self._at += 1
        table = self._within((), self._key(), line)
        self._at += 1
        return table

    def _within(self, path: Path, keys: list[str], line: int) -> Path:
        """The place of a table; of an array of tables its last element is meant."""
        for key in keys:
            path = (*path, key)
            self._note(path, line)
            if path in self._counts:
                path = (*path, self._counts[path] - 1)
        return path

    # ---- keys and values

    def _pair(self, table: Path) -> None:
        line = self._line()
        path = self._within(table, self._key(), line)
        self._at += 1  # the sign of equality
        self._skip(_SPACE)
        self._value(path)

    def _key(self) -> list[str]:
        """Requires: at its beginning, but for space. Ensures: behind it and the space that follows."""
        keys = []
        while True:
            self._skip(_SPACE)
            begun = self._at
            quoted = {'"': _BASIC, "'": _LITERAL}.get(self._text[begun])
            self._skip(quoted or _BARE)
            word = self._text[begun : self._at]
            keys.append(str(tomllib.loads(f"key = {word}")["key"]) if quoted else word)
            self._skip(_SPACE)
            if self._text[self._at] != ".":
                return keys
            self._at += 1

    def _value(self, path: Path) -> None:
        self._note(path, self._line())
        first = self._text[self._at]
        if first == "[":
            for number in self._items("]"):
                self._value((*path, number))
        elif first == "{":
            for _number in self._items("}"):
                self._pair(path)
        elif first in "\"'":
            short, long = (_BASIC, _LONG_BASIC) if first == '"' else (_LITERAL, _LONG_LITERAL)
            self._skip(long if self._text.startswith(first * 3, self._at) else short)
        else:
            self._skip(_SIMPLE)

    def _items(self, end: str) -> Iterator[int]:
        """Numbers of what stands between brackets; each is read before the next is asked for."""
        self._at += 1
        number = 0
        while self._skip(_BLANK) and self._text[self._at] != end:
            if self._text[self._at] == ",":
                self._at += 1
                continue
            yield number
            number += 1
        self._at += 1

    # ---- within

    def _skip(self, what: re.Pattern[str]) -> bool:
        found = what.match(self._text, self._at)
        assert found is not None, f"tomllib takes what is not understood here, in line {self._line()}"
        self._at = found.end()
        return True

    def _line(self) -> int:
        return bisect_right(self._ends, self._at - 1) + 1 if self._at else 1

    def _note(self, path: Path, line: int) -> None:
        """The first place counts."""
        self._lines.setdefault(path, line)
