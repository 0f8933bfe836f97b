"""Events of a data folder, added up by reason: what a report shows of them, as files and as Flight give it."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from holdfast.storage.event_files import read_events

_CLIENTS: Final = 3


@dataclass(frozen=True)
class ReasonCount:
    """How often something was dropped, refused or ended for one reason, when last, and whom it hit most."""

    reason: str
    count: int
    last_us: int
    clients: tuple[tuple[str, int], ...]


def count_events(folder: Path, since_us: int = 0) -> list[ReasonCount]:
    """Of all events from a time on, the most frequent reason first."""
    counts: Counter[str] = Counter()
    last_us: dict[str, int] = {}
    clients: dict[str, Counter[str]] = {}
    for event in read_events(folder):
        if event.time_us < since_us:
            continue
        count = max(1, event.count)
        counts[event.reason] += count
        last_us[event.reason] = max(event.time_us, last_us.get(event.reason, 0))
        hit = clients.setdefault(event.reason, Counter())
        if event.client:
            # A session behind a mount point has it in front.
            hit[event.client.replace("\0", " ").strip()] += count
    made = [
        ReasonCount(reason, count, last_us[reason], tuple(clients[reason].most_common(_CLIENTS)))
        for reason, count in counts.items()
    ]
    return sorted(made, key=lambda one: (-one.count, one.reason))
