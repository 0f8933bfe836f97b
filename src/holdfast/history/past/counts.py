"""How many messages lie in a range, and how many of it are gone, by serials: nothing is read but what lies at its ends.

Serials have no gaps, so the messages of a part are as many as its serials. Erased ones are counted, and so are those of
`$`-topics: for what is shown it is an upper bound.
"""

from holdfast.durable.log import NO_END
from holdfast.history.reader.reader import HistoryReader
from holdfast.history.reader.view import UNKNOWN, Part, View


def count_messages(reader: HistoryReader, from_us: int, to_us: int, zone: str | None = None) -> int:
    """The messages of [from, to) that are kept."""
    return sum(count_part(reader, part) for part in reader.parts(from_us, to_us, zone))


def count_part(reader: HistoryReader, part: Part) -> int:
    """The messages of a part."""
    after = part.after_serial
    if after == UNKNOWN:
        first = reader.first(part)
        if first is None:
            return 0
        after = first.serial - 1
    last = _last_serial(reader, part) if part.last_serial == UNKNOWN else part.last_serial
    return max(0, last - after)


def _last_serial(reader: HistoryReader, part: Part) -> int:
    """The last serial before the end of a part."""
    for rest in reader.shard_parts(part.shard, part.hi_us, NO_END):
        first = reader.first(rest)
        if first is not None:
            return first.serial - 1
    return reader.heads()[part.shard].serial


def lost_at_most(view: View, from_us: int, to_us: int, zone: str | None = None) -> int:
    """So many messages of [from, to), of all topics, were removed by retention at most, or are lost by damage."""
    shards = [shard for one in view.zones.values() if zone is None or one.is_of(zone) for shard in one.shards]
    lost = [view.lost(shard, from_us, to_us) for shard in shards if from_us < to_us]
    return sum(one.at_most for one in lost if one is not None)
