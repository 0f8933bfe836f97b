"""Counts by serials are those of brute force, whatever the range."""

import pytest

from holdfast.durable.log import NO_END
from holdfast.history.past.counts import count_messages
from tests.unit.history.past.past_folder import PastFolder
from tests.unit.history.past.questioner import Questioner


@pytest.mark.parametrize("zone", [None, "default", "machines"])
def test_a_range_has_as_many_messages_as_were_published(past: PastFolder, ask: Questioner, zone: str | None) -> None:
    written = past.store.written
    places = [0, *[written[number].position_us for number in range(0, len(written), 37)], NO_END]
    with ask.pool.reading() as reader:
        shards = {shard for one in reader.zones() if zone in (None, one.name) for shard in one.shards}
        own = [message.position_us for message in written if message.shard in shards]
        for from_us in places[::3]:
            for to_us in places[1::2]:
                wanted = sum(from_us <= position_us < to_us for position_us in own)
                assert count_messages(reader, from_us, to_us, zone) == wanted, (from_us, to_us)
