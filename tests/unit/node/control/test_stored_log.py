"""The log in numbers: messages by zone, and bounds of what is owed."""

from holdfast.node.control.stored_log import StoredLog, StoredShard, ZoneNumbers
from holdfast.records.generations import Generation


def generation(number: int, start_us: int, end_us: int = 0, last: int = 0, zone: str = "a") -> Generation:
    return Generation(zone, number, "paged", {}, start_us, (1,), 0, end_us=end_us, last_serials=(last,))


def shard(head_us: int, head_serial: int, *, zone: str = "a") -> StoredShard:
    live = [generation(2, 200, 300, 20, zone), generation(3, 300, zone=zone)]
    return StoredShard(zone, 1, head_us, head_serial, live, [generation(1, 100, 200, 15, zone)])


def test_messages_are_those_of_the_generations_that_are_left() -> None:
    log = StoredLog(lambda: [shard(350, 27)])
    assert log.zones() == {"a": ZoneNumbers(messages=12, generations=2, oldest_us=200, dropped=15)}


def test_what_was_loaded_belongs_to_its_zone_and_is_owed_to_nobody() -> None:
    log = StoredLog(lambda: [shard(350, 27), shard(350, 27, zone="a~1")._replace(id=1)])
    assert log.zones() == {"a": ZoneNumbers(messages=24, generations=4, oldest_us=200, dropped=30)}
    log.refresh()
    assert log.owed_at_most({1: 299}) == 7


def test_what_is_owed_is_bounded_by_the_end_of_the_generation_before() -> None:
    log = StoredLog(lambda: [shard(350, 27)])
    log.refresh()
    assert log.owed_at_most({1: 350}) == 0
    assert log.owed_at_most({1: 340}) == 7
    assert log.owed_at_most({1: 298}) == 12
    assert log.owed_at_most({}) == 27


def test_a_bound_becomes_better_with_each_look() -> None:
    heads = [(350, 27)]
    log = StoredLog(lambda: [shard(*heads[-1])])
    log.refresh()
    heads.append((400, 30))
    log.refresh()
    assert log.owed_at_most({1: 350}) == 3
    assert log.owed_at_most({1: 349}) == 10


def test_only_so_many_places_are_remembered() -> None:
    heads = [(350, 20)]
    log = StoredLog(lambda: [shard(*heads[-1])])
    for number in range(5000):
        heads.append((350 + number, 20 + number))
        log.refresh()
    assert len(log._places[1].positions) <= 1001
    assert log.owed_at_most({1: 350 + 4999}) == 0
    assert 2499 <= log.owed_at_most({1: 350 + 2500}) <= 4999
