"""What `holdfast verify` found: problems, notes and counts."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from rocksdict import Rdict, ReadOptions

RESTORE: Final = (
    "restore a backup (holdfast restore); without one start the broker, which goes on with what can be read, and keep "
    "a copy of the folder"
)
REPORT: Final = "this should not happen: keep a copy of the folder and report it"

#: Problems of one kind that are listed; the rest is counted.
_LISTED: Final = 10

#: Called with what is being read, the keys done, and about how many there are.
Progress = Callable[[str, int, int], None]

#: Keys between two calls of a progress.
_STEP: Final = 5_000


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong."""

    where: str
    what: str
    #: What to do.
    advice: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclass(slots=True)
class VerifyReport:
    """What was read and what is wrong with it.

    1. Of problems of one kind at one place the first few are listed; `more` counts the rest.
    """

    problems: list[Problem] = field(default_factory=list)
    more: dict[tuple[str, str], int] = field(default_factory=dict)
    #: True and worth knowing, and no problem.
    notes: list[str] = field(default_factory=list)
    keys: int = 0
    messages: int = 0
    _kinds: dict[tuple[str, str], int] = field(default_factory=dict)

    @property
    def is_sound(self) -> bool:
        return not self.problems

    def add(self, where: str, kind: str, what: str, advice: str) -> None:
        """`kind` groups problems that have one cause."""
        count = self._kinds.get((where, kind), 0)
        self._kinds[where, kind] = count + 1
        if count < _LISTED:
            self.problems.append(Problem(where, what, advice))
        else:
            self.more[where, kind] = count + 1 - _LISTED


class CheckedReader:
    """Reads families key by key, with checksums, and notes what cannot be read."""

    def __init__(self, report: VerifyReport, progress: Progress | None) -> None:
        self.report: Final = report
        self._progress: Final = progress

    def items(self, name: str, family: Rdict) -> Iterator[tuple[bytes, bytes]]:
        """Every key and value; damage ends it, because behind a bad block the order is not to be trusted."""
        total = int(family.property_int_value("rocksdb.estimate-num-keys") or 0)
        options = ReadOptions()
        options.set_verify_checksums(True)
        # What is read once would only push out what others need.
        options.fill_cache(False)  # type: ignore[call-arg]  # the stub lacks the argument
        done = 0
        last: Any = None
        self._tell(name, 0, total)
        try:
            cursor = family.iter(options)
            cursor.seek_to_first()
            while cursor.valid():
                last, value = cursor.key(), cursor.value()
                yield last, value
                done += 1
                if done % _STEP == 0:
                    self._tell(name, done, max(done, total))
                cursor.next()
            cursor.status()
        except GeneratorExit:
            raise
        except Exception as error:
            place = "at its first key" if last is None else f"behind key {last.hex()}"
            self.report.add(name, "unreadable", f"cannot be read {place}: {error}", RESTORE)
        self.report.keys += done
        self._tell(name, done, done)

    def _tell(self, name: str, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(name, done, total)
