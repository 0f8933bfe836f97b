"""Which generations are rewritten, and as what. This module does not know Spark.

1. Only what is sealed: the present generation keeps its layout for life.
2. A generation that is in the layout that is wanted is left alone, unless patterns are to be learnt again.
3. Whole generations are restored from a lake: those that have messages of the days asked for, and that
   retention has dropped. They come back with their positions and serials.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from holdfast.history.reader.view import UNKNOWN, View
from holdfast.model.errors import PermanentError, SettingsError
from holdfast.model.time import DAY_US
from holdfast.records.generations import Generation, Parameter
from holdfast.records.lanes import zone_of_lane
from holdfast.storage.rocks.log.zone_log import PATTERNS

if TYPE_CHECKING:
    from holdfast.pipeline.lake.store import LakeAddress

#: What names of shipments begin with.
PREFIX: Final = "relayout-"
#: Layouts that learn topics, and have thresholds for it.
_PLACING: Final = ("learned", "indexed")
_LEARNING: Final = (*_PLACING, "paged")
_THRESHOLDS: Final = "thresholds"


@dataclass(frozen=True)
class RelayoutJob:
    """Which generations of a data folder are rewritten, and how."""

    data: Path
    #: None: as the zone's present generation.
    layout: str | None = None
    #: Learn the topic patterns again where the layout stays.
    learn: bool = False
    zone: str | None = None
    numbers: tuple[int, ...] = ()
    #: Days to restore, and the lake that has them.
    days: tuple[date, ...] = ()
    lake: "LakeAddress | None" = None


@dataclass(frozen=True)
class RelayoutTask:
    """A generation, and what it will be."""

    old: Generation
    new: Generation
    #: Of each shard, the last serial before the generation; UNKNOWN if no record has it any more.
    after_serials: tuple[int, ...]

    @property
    def name(self) -> str:
        """Of its shipment."""
        return f"{PREFIX}{self.old.zone.replace('~', '.')}-{self.old.number}-{self.new.edition}"

    def messages(self, shard: int) -> int:
        """How many messages a shard has; UNKNOWN if that is not known."""
        after = self.after_serials[self.old.shards.index(shard)]
        return UNKNOWN if after == UNKNOWN else self.old.last_serial(shard) - after


def choose_generations(view: View, job: RelayoutJob, now_us: int) -> list[RelayoutTask]:
    """What there is to do, oldest first. SettingsError: there is no such zone or generation."""
    if job.zone is not None and job.zone not in view.zones:
        raise SettingsError(f"there is no zone {job.zone!r}; there are {', '.join(sorted(view.zones))}")
    names = [name for name in sorted(view.zones) if job.zone is None or view.zones[name].is_of(job.zone)]
    tasks = [
        task
        for name in names
        for record in (view.dropped[name] if job.days else view.live[name])
        if (not job.numbers or record.number in job.numbers)
        if (task := _task(view, record, job, now_us)) is not None
    ]
    known = {record.number for name in names for record in [*view.live[name], *view.dropped[name]]}
    strange = sorted(set(job.numbers) - known)
    if strange:
        raise SettingsError(f"there is no generation {strange[0]}; there are {', '.join(map(str, sorted(known)))}")
    return tasks


def _task(view: View, record: Generation, job: RelayoutJob, now_us: int) -> RelayoutTask | None:
    if not record.end_us or (job.days and not _has_day(record, job.days)):
        return None
    present = _present(view, record.zone)
    layout = job.layout or (record.layout if job.days or job.learn or present is None else present.layout)
    if not job.days and layout == record.layout and not (job.learn and layout in _PLACING):
        return None
    # A restored generation stays for as long as a new one; a rewritten one keeps its age.
    created_us = now_us if job.days else record.created_us
    after = tuple(view.serial_before(record.zone, record, shard) for shard in record.shards)
    return RelayoutTask(record, record.edited(layout, _parameters(record, layout, present), created_us), after)


def _has_day(record: Generation, days: Sequence[date]) -> bool:
    return any(record.start_us < start_us + DAY_US and record.end_us > start_us for start_us in map(day_us, days))


def day_us(day: date) -> int:
    """Where a day begins, in UTC."""
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1_000_000


def _present(view: View, zone: str) -> Generation | None:
    """The generation that is written to now, of the zone or of the zone that a lane belongs to."""
    live = view.live.get(zone_of_lane(zone), [])
    return live[-1] if live and not live[-1].end_us else None


def _parameters(record: Generation, layout: str, present: Generation | None) -> dict[str, Parameter]:
    """Texts say what is in it, and stay; numbers belong to the layout. Patterns are those that are learnt now."""
    known = {name: value for name, value in record.parameters.items() if name != PATTERNS}
    if layout == record.layout:
        return known
    found: dict[str, Parameter] = {name: value for name, value in known.items() if isinstance(value, str)}
    for like in (record, present):
        if layout in _LEARNING and like is not None and _THRESHOLDS in like.parameters:
            found[_THRESHOLDS] = like.parameters[_THRESHOLDS]
    return found


def check_count(task: RelayoutTask, shard: int, messages: int) -> None:
    """PermanentError if not all messages of a shard were laid out."""
    owed = task.messages(shard)
    if owed not in (UNKNOWN, messages):
        raise PermanentError(
            f"{messages:,} messages of shard {shard} were found, and generation {task.old.number} of zone "
            f"{task.old.zone!r} has {owed:,}; nothing was changed"
        )
