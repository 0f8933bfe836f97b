"""Leases: how far a named pipeline has come, so that retention does not pass it.

The pipeline writes its lease, from its own process; the broker reads it when retention wants to drop something, and
only then.

    <data folder>/leases/NAME.json      {"version": 1, "renewed_us": …, "positions": {"0": …, "3": …}}
    <data folder>/leases/NAME.broken    the same, with "broken_us" and "why"

1. A position is *done*, as in a cursor: the pipeline needs what lies above it, in the shards that the lease names.
2. A lease is as good as its last renewal: one that is older than the limit is broken, and said to be.
3. A disk that runs out of space breaks leases too, the one that was renewed longest ago first, and one at a time. Only
   those that hold up retention: breaking another would free nothing.
4. What was broken stays on record until the pipeline renews its lease, or somebody removes it: its pipeline may have
   lost messages, and that must be seen also after a restart.
5. A file is replaced as a whole. One that cannot be read holds nothing.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from holdfast.files.private import FOLDER_MODE
from holdfast.files.replacement import read_json, replace_json
from holdfast.model.errors import PermanentError, TransientError
from holdfast.model.time import SECOND_US
from holdfast.records.generations import Generation
from holdfast.storage.rocks.log.published_heads import Head

_log = structlog.get_logger()

FOLDER_NAME: Final = "leases"
#: Never change: in the files.
_VERSION: Final = 1
_SUFFIX: Final = ".json"
_BROKEN_SUFFIX: Final = ".broken"
#: A name is that of a file, too, so nothing in it leads elsewhere.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
#: A client that may renew leases cannot fill the folder with them.
MAX_LEASES: Final = 256


class Lease(NamedTuple):
    """A pipeline's word on what it has done."""

    name: str
    renewed_us: int
    #: The last position done, by shard.
    positions: dict[int, int]

    def age_s(self, now_us: int) -> float:
        return max(0, now_us - self.renewed_us) / SECOND_US

    def needs(self, generation: Generation, heads_us: Mapping[int, int]) -> bool:
        """Whether a sealed generation may hold something that is not done. `heads_us`: the last position by shard."""
        return any(
            done_us + 1 < generation.end_us and done_us < heads_us.get(shard, generation.end_us)
            for shard in generation.shards
            if (done_us := self.positions.get(shard)) is not None
        )


def check_name(name: str) -> None:
    """PermanentError if a lease cannot be called so."""
    if not _NAME.fullmatch(name):
        raise PermanentError(
            f"{name!r} is no name for a lease; use up to 100 letters, digits, '_', '-' and '.', "
            "and begin with a letter or a digit"
        )


def renew_lease(folder: Path, name: str, positions: Mapping[int, int], now_us: int) -> Lease:
    """Say how far a pipeline has come; what it said before does not hold any more.

    Survives: a power loss, with the old lease or the new one.
    """
    check_name(name)
    if not positions or not all(0 <= shard < 2**16 and done_us >= 0 for shard, done_us in positions.items()):
        raise PermanentError("a lease says for each shard up to which position it is done, such as 0: 1700000000000000")
    leases = folder / FOLDER_NAME
    lease = Lease(name, now_us, dict(positions))
    content = {
        "version": _VERSION,
        "renewed_us": now_us,
        "positions": {str(shard): positions[shard] for shard in sorted(positions)},
    }
    try:
        leases.mkdir(FOLDER_MODE, exist_ok=True)
        path = leases / (name + _SUFFIX)
        if not path.exists() and len(_paths(leases)) >= MAX_LEASES:
            raise PermanentError(
                f"there are {MAX_LEASES} leases, and there may not be more; "
                f"remove one: holdfast leases --data {folder} --remove NAME"
            )
        replace_json(path, content, mode=0o644)  # the broker may be another user
        path.with_name(name + _BROKEN_SUFFIX).unlink(missing_ok=True)
    except OSError as error:
        raise TransientError(f"the lease {name!r} cannot be written to {leases}: {error.strerror}") from error
    return lease


def remove_lease(folder: Path, name: str) -> bool:
    """Let retention go on without regard to a pipeline; whether there was such a lease, or a broken one."""
    check_name(name)
    found = False
    for suffix in (_SUFFIX, _BROKEN_SUFFIX):
        try:
            (folder / FOLDER_NAME / (name + suffix)).unlink()
            found = True
        except FileNotFoundError:
            pass
        except OSError as error:
            raise TransientError(f"the lease {name!r} cannot be removed: {error.strerror}") from error
    return found


class BrokenLease(NamedTuple):
    """A lease that retention did not wait for any more."""

    name: str
    broken_us: int
    why: str


def broken_leases(folder: Path) -> list[BrokenLease]:
    """What was broken and neither renewed nor removed since, by name. TransientError if the folder cannot be read."""
    found: list[BrokenLease] = []
    for path in _paths(folder / FOLDER_NAME, _BROKEN_SUFFIX):
        try:
            content = read_json(path, _VERSION)
            found.append(BrokenLease(path.stem, int(content["broken_us"]), str(content["why"])))
        except FileNotFoundError:
            continue  # renewed or removed meanwhile
        except (OSError, PermanentError, KeyError, TypeError, ValueError):
            # Nobody but the broker writes it, so it was damaged later; that it is there is what matters.
            found.append(BrokenLease(path.stem, 0, "its record cannot be read"))
    return found


def note_broken(folder: Path, lease: Lease, now_us: int, why: str) -> None:
    """Put a lease that is broken on record, so that it is no lease any more, unless it was renewed meanwhile. At most
    MAX_LEASES are kept.

    OSError if it cannot be written; then nothing has changed.
    """
    path = folder / FOLDER_NAME / (lease.name + _BROKEN_SUFFIX)
    content = {
        "version": _VERSION,
        "renewed_us": lease.renewed_us,
        "positions": {str(shard): lease.positions[shard] for shard in sorted(lease.positions)},
        "broken_us": now_us,
        "why": why,
    }
    replace_json(path, content, mode=0o644)
    own = path.with_name(lease.name + _SUFFIX)
    try:
        found = _read(own)
    except ValueError:
        found = None
    # If it was renewed while the record was written, it is a lease again.
    (own if found is None or found == lease else path).unlink(missing_ok=True)
    kept = sorted(broken_leases(folder), key=lambda broken: broken.broken_us)
    for broken in kept[: max(0, len(kept) - MAX_LEASES)]:
        path.with_name(broken.name + _BROKEN_SUFFIX).unlink(missing_ok=True)


def read_leases(folder: Path, unreadable: Callable[[Path, str], None] | None = None) -> list[Lease]:
    """All that can be read, by name; `unreadable` is told of the others, and why."""
    found: list[Lease] = []
    for path in _paths(folder / FOLDER_NAME):
        try:
            lease = _read(path)
        except ValueError as error:
            if unreadable is not None:
                unreadable(path, str(error))
        else:
            found += [] if lease is None else [lease]
    return found


class LeaseRow(NamedTuple):
    """A lease, as it is listed."""

    name: str
    positions: Mapping[int, int]
    #: Of the shard that it is furthest behind in.
    behind_s: float
    renewed_us: int
    age_s: float


def lease_rows(
    folder: Path,
    heads: Mapping[int, Head],
    now_us: int,
    unreadable: Callable[[Path, str], None] | None = None,
) -> list[LeaseRow]:
    """Every lease, with how far it is behind the heads of its shards."""
    return [_row(lease, heads, now_us) for lease in read_leases(folder, unreadable)]


def list_leases(
    folder: Path,
    heads: Mapping[int, Head],
    now_us: int,
    unreadable: Callable[[Path, str], None] | None = None,
) -> list[dict[str, object]]:
    """Every lease, then every broken one, as commands and the API print them; null is what the other kind has.

    TransientError if the folder cannot be read.
    """
    whole = {**dict.fromkeys(LeaseRow._fields), **dict.fromkeys(BrokenLease._fields)}
    rows: list[LeaseRow | BrokenLease] = [*lease_rows(folder, heads, now_us, unreadable), *broken_leases(folder)]
    return [{**whole, **row._asdict()} for row in rows]


def _row(lease: Lease, heads: Mapping[int, Head], now_us: int) -> LeaseRow:
    behind_us = [heads[shard].position_us - done_us for shard, done_us in lease.positions.items() if shard in heads]
    behind_s = max([0, *behind_us]) / SECOND_US
    return LeaseRow(lease.name, lease.positions, behind_s, lease.renewed_us, lease.age_s(now_us))


class Leases:
    """The broker's side: what retention has to ask."""

    def __init__(self, folder: Path, max_age_s: float) -> None:
        self._folder: Final = folder
        self._max_age_s: Final = max_age_s
        #: Leases that hold up retention, as far as that was said, and files that are none.
        self._said: set[tuple[str, str, int]] = set()
        self._unreadable: set[Path] = set()
        #: Whether to make room at the cost of pipelines. Set by the disk watch.
        self.short_of_space = False

    def hold(self, generation: Generation, heads_us: Mapping[int, int], now_us: int) -> bool:
        """Whether a generation that retention would drop has to stay. Breaks leases that may not hold it up."""
        holding = [lease for lease in read_leases(self._folder, self._warn) if lease.needs(generation, heads_us)]
        lasting: list[Lease] = []
        for lease in holding:
            if lease.age_s(now_us) > self._max_age_s:
                self._break(lease, now_us, "it was not renewed for too long", setting="history.lease_max_age_s")
            else:
                lasting.append(lease)
        if self.short_of_space and lasting:
            oldest = min(lasting, key=lambda lease: (lease.renewed_us, lease.name))
            self._break(oldest, now_us, "the disk is short of space", setting="storage.min_free_bytes")
            lasting.remove(oldest)
        for lease in lasting:
            place = (lease.name, generation.zone, generation.number)
            if place not in self._said:
                self._said.add(place)
                _log.info("a lease holds up retention", lease=lease.name, zone=place[1], generation=place[2])
        return bool(lasting)

    def forget(self, generation: Generation) -> None:
        """It is gone."""
        self._said = {place for place in self._said if place[1:] != (generation.zone, generation.number)}

    def _break(self, lease: Lease, now_us: int, why: str, *, setting: str) -> None:
        # It may have been renewed this very moment.
        if lease in read_leases(self._folder):
            try:
                note_broken(self._folder, lease, now_us, why)
            except OSError:
                # A full disk takes no record, and waits for the space that the lease holds.
                (self._folder / FOLDER_NAME / (lease.name + _SUFFIX)).unlink(missing_ok=True)
        _log.warning(
            "a lease is broken, and its pipeline may lose messages",
            lease=lease.name,
            why=why,
            age_s=round(lease.age_s(now_us)),
            setting=setting,
        )

    def _warn(self, path: Path, why: str) -> None:
        if path not in self._unreadable:
            self._unreadable.add(path)
            _log.warning("a lease cannot be read and holds nothing", file=str(path), why=why)


def _paths(leases: Path, suffix: str = _SUFFIX) -> list[Path]:
    try:
        return sorted(path for path in leases.iterdir() if path.suffix == suffix and _NAME.fullmatch(path.stem))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise TransientError(f"{leases} cannot be read: {error.strerror}") from error


def _read(path: Path) -> Lease | None:
    """ValueError if it is none; None if it is gone."""
    try:
        content = read_json(path, _VERSION)
        positions = {int(shard): int(done_us) for shard, done_us in content["positions"].items()}
        return Lease(path.stem, int(content["renewed_us"]), positions)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(error.strerror) from error
    except PermanentError as error:
        raise ValueError(str(error)) from error
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"it has no {error}" if isinstance(error, KeyError) else str(error)) from error
