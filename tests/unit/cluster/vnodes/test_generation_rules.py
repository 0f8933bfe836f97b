"""Borders and drops that a leader proposes: by age and by size, one generation at a time."""

from holdfast.cluster.vnodes.generation_rules import GenerationRules, ShardState
from holdfast.durable.zones import Zone
from holdfast.model.time import SECOND_US
from holdfast.records.cluster.items import Border, DropGeneration, Item
from holdfast.records.generations import Generation

T = 1_700_000_000 * SECOND_US
HOUR_US = 3600 * SECOND_US


def generation(number: int, start_us: int, end_us: int = 0) -> Generation:
    return Generation("default", number, "paged", {"a": 1}, start_us, (0,), start_us, end_us=end_us)


def due(
    zone: Zone, generations: list[Generation], now_us: int, *, sizes: list[int] | None = None, head_us: int = T
) -> list[Item]:
    state = ShardState("default", generations, sizes or [0] * len(generations), head_us)
    return GenerationRules({"default": zone}, 2).due([state], now_us)


def test_a_generation_ends_by_age() -> None:
    zone = Zone("default", generation_s=3600, retention_s=0)
    young = [generation(1, T)]
    assert due(zone, young, T + HOUR_US - 1) == []
    assert due(zone, young, T + HOUR_US) == [Border("default", 2, "paged", {"a": 1})]


def test_its_length_follows_from_the_retention() -> None:
    zone = Zone("default", retention_s=12 * 3600)
    assert due(zone, [generation(1, T)], T + HOUR_US - 1) == []
    assert due(zone, [generation(1, T)], T + HOUR_US) != []


def test_a_generation_ends_by_size_which_all_vnodes_share() -> None:
    zone = Zone("default", generation_bytes=1000, retention_s=0)
    assert due(zone, [generation(1, T)], T + 1, sizes=[499]) == []
    assert due(zone, [generation(1, T)], T + 1, sizes=[500]) == [Border("default", 2, "paged", {"a": 1})]


def test_an_empty_generation_stays_open() -> None:
    zone = Zone("default", generation_s=60)
    assert due(zone, [generation(1, T)], T + HOUR_US, head_us=T - 1) == []
    assert due(zone, [generation(1, 0)], T + HOUR_US, head_us=0) == []


def test_the_oldest_sealed_generation_goes_when_all_of_it_is_too_old() -> None:
    zone = Zone("default", generation_s=10**6, retention_s=3600)
    two = [generation(1, T, T + 10), generation(2, T + 10)]
    assert due(zone, two, T + 10 + HOUR_US - 1) == []
    assert due(zone, two, T + 10 + HOUR_US) == [DropGeneration("default", 1)]


def test_the_oldest_sealed_generation_goes_when_too_much_is_kept() -> None:
    zone = Zone("default", generation_bytes=10**9, retention_s=0, retention_bytes=1000)
    three = [generation(1, T, T + 10), generation(2, T + 10, T + 20), generation(3, T + 20)]
    assert due(zone, three, T + 30, sizes=[200, 200, 100]) == []
    assert due(zone, three, T + 30, sizes=[200, 200, 101]) == [DropGeneration("default", 1)]


def test_the_open_generation_never_goes_and_an_unknown_zone_is_left_alone() -> None:
    zone = Zone("default", generation_bytes=10**9, retention_s=1, retention_bytes=1, generation_s=10**6)
    assert due(zone, [generation(1, T)], T + HOUR_US, sizes=[10**6]) == []
    state = ShardState("gone", [generation(1, T)], [10**9], T)
    assert GenerationRules({"default": zone}, 2).due([state], T + HOUR_US) == []


def test_a_lease_holds_up_what_retention_would_drop_and_nothing_else() -> None:
    zone = Zone("default", retention_s=3600)
    generations = [generation(1, T, T + 1), generation(2, T + 1)]
    asked: list[tuple[int, int, int]] = []
    held = True

    def is_held(found: Generation, head_us: int, now_us: int) -> bool:
        asked.append((found.number, head_us, now_us))
        return held

    rules = GenerationRules({"default": zone}, 1, is_held)
    shards = [ShardState("default", generations, [0, 0], T + 5)]
    assert rules.due(shards, T + 2) == []
    assert asked == []
    late_us = T + 2 * HOUR_US
    drop = DropGeneration("default", 1)
    assert drop not in rules.due(shards, late_us)
    assert asked == [(1, T + 5, late_us)]
    held = False
    assert drop in rules.due(shards, late_us)
