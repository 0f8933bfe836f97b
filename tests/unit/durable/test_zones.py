"""Zones: which one takes a topic, which may not stand together, and who gets which shard."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.durable.zones import UNSTORED, Zone, Zones, assign_shards, parse_zone_filter
from holdfast.model.errors import MisuseError, SettingsError
from holdfast.topics.filters import levels_match

pytestmark = pytest.mark.compiled


def zone(name: str, *filters: str, shards: int = 1) -> Zone:
    return Zone(name, tuple(parse_zone_filter(text) for text in filters), shards=shards)


def zones_of(*zones: Zone, mounts: tuple[bytes, ...] = (), default: Zone | None = None) -> Zones:
    default = default or Zone("default")
    return Zones(list(zones), default, list(mounts), assign_shards({}, [default, *zones]))


@pytest.mark.parametrize(
    ("topic", "name"),
    [
        (b"plant/1/press", "machines"),
        (b"plant", "machines"),
        (b"audit", "audit"),
        (b"audit/x", "default"),
        (b"other", "default"),
        (b"$internal/x", "default"),
        (b"/plant/1", "default"),
        (b"x" * 60_000, "default"),
        (b"plant/" + b"x" * 60_000, "machines"),
    ],
)
def test_a_topic_goes_to_the_zone_that_names_it_and_else_to_the_default(topic: bytes, name: str) -> None:
    """L17: the default zone is the complement, `$`-topics included."""
    zones = zones_of(zone("machines", "plant/#"), zone("audit", "audit"))

    for _time in range(3):
        assert zones.of(topic).name == name


@pytest.mark.parametrize("topic", [b"$SYS", b"$SYS/broker/uptime"])
def test_sys_topics_are_never_stored(topic: bytes) -> None:
    assert zones_of().of(topic) is UNSTORED
    assert not UNSTORED.store


def test_a_topic_that_only_begins_like_sys_is_stored() -> None:
    assert zones_of().of(b"$SYSTEM/x").store


def test_zones_are_remembered_for_a_bounded_number_of_topics() -> None:
    zones = zones_of(zone("a", "a/#"))
    for number in range(40_000):
        zones.of(b"a/%d" % number)

    assert len(zones._young) + len(zones._old) <= 2 * 8192
    assert zones.of(b"a/1").name == "a"
    assert zones.of(b"b/1").name == "default"


@pytest.mark.parametrize(
    ("one", "other", "mounts"),
    [
        ("plant/#", "plant/+/press", ()),
        ("+/x", "a/+", ()),
        ("a/#", "a", ()),
        ("plant/#", "tenant-a/#", (b"tenant-a/",)),
        ("plant/#", "tenant-a/plant/x", (b"tenant-b/", b"tenant-a/")),
        ("b/c", "a/b/c", (b"a/",)),
        # Behind the mount point each is seen by clients of its own, and yet a topic matches both.
        ("+/y", "a/x/y", (b"a/",)),
    ],
)
def test_zones_that_overlap_are_refused_with_both_filters_and_both_names(
    one: str, other: str, mounts: tuple[bytes, ...]
) -> None:
    """L17: mount points included."""
    for first, second in ((one, other), (other, one)):
        with pytest.raises(SettingsError) as caught:
            zones_of(zone("first", first), zone("second", second), mounts=mounts)
        text = str(caught.value)
        assert "'first'" in text
        assert "'second'" in text
        assert all(f"{name}'" in text for name in (first, second))


def test_the_same_zones_stand_together_without_the_mount_point() -> None:
    """L17: it is the mount point that makes them overlap."""
    zones = zones_of(zone("first", "plant/#"), zone("second", "tenant-a/#"), mounts=(b"tenant-b/",))

    assert zones.of(b"tenant-a/plant/x").name == "second"
    assert zones.of(b"tenant-b/plant/x").name == "first"


def test_a_zone_may_overlap_itself() -> None:
    assert zones_of(zone("a", "a/#", "a/b", "+/b"), mounts=(b"a/",)).of(b"a/b").name == "a"


def test_a_filter_of_all_topics_stands_alone() -> None:
    zones = zones_of(zone("all", "#"))

    assert zones.of(b"x").name == "all"
    assert zones.of(b"$x").name == "default"


LEVELS = st.sampled_from(["a", "b", "+"])
FILTERS = st.builds(
    lambda levels, rest: "/".join([*levels, *rest]),
    st.lists(LEVELS, min_size=1, max_size=3),
    st.sampled_from([[], ["#"]]),
)
UNIVERSE = [levels for depth in range(1, 6) for levels in product([b"a", b"b", b"z"], repeat=depth)]


@given(FILTERS, FILTERS, st.lists(st.sampled_from([b"a/", b"b/a/"]), max_size=2))
def test_zones_are_refused_exactly_if_some_topic_has_two(one: str, other: str, mounts: list[bytes]) -> None:
    """L17, against every topic of a small universe."""
    seen = [[tuple((mount + text.encode()).split(b"/")) for mount in [b"", *mounts]] for text in (one, other)]
    taken = [
        {topic for topic in UNIVERSE if any(levels_match(levels, list(topic), dollar=False) for levels in filters)}
        for filters in seen
    ]
    if taken[0] & taken[1]:
        with pytest.raises(SettingsError, match="overlap"):
            zones_of(zone("x", one), zone("y", other), mounts=tuple(mounts))
        return
    zones = zones_of(zone("x", one), zone("y", other), mounts=tuple(mounts))
    for topic in UNIVERSE:
        expected = "x" if topic in taken[0] else "y" if topic in taken[1] else "default"
        assert zones.of(b"/".join(topic)).name == expected


@pytest.mark.parametrize("text", ["", "a/#/b", "a+", "$share/g/a", "$replay/-2h/a"])
def test_what_is_no_filter_of_topics_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="zone filter"):
        parse_zone_filter(text)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (Zone("", ((b"a",),)), "zone name"),
        (Zone("a b", ((b"a",),)), "zone name"),
        (Zone("x" * 65, ((b"a",),)), "zone name"),
        (Zone("z"), "no filter"),
        (Zone("default", ((b"a",),)), "two zones are named"),
        (Zone("z", ((b"a",),), shards=0), "needs 1 to 65536"),
        (Zone("z", ((b"a",),), durability="disk"), "one of fsync, os, memory"),
        (Zone("z", ((b"a",),), retention_s=-1), "below 0"),
        (Zone("z", ((b"a",),), thresholds=(0,)), "threshold below 1"),
        (Zone("z", ((b"$SYS", b"#"),)), "never stored"),
        (Zone("z", ((b"$SYS",),)), "never stored"),
    ],
)
def test_impossible_settings_are_refused_with_what_would_be_right(bad: Zone, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        Zones([bad], Zone("default"), [], {"default": (0,), bad.name: (1,)})


def test_the_default_zone_has_no_filter() -> None:
    with pytest.raises(SettingsError, match="takes what no other zone names"):
        zones_of(default=zone("default", "a"))


def test_a_mount_point_is_whole_levels() -> None:
    with pytest.raises(MisuseError, match="end with /"):
        zones_of(zone("z", "a"), mounts=(b"tenant",))


def test_a_publisher_comes_to_the_same_shard_for_ever() -> None:
    """The numbers are stored by what they lead to: they never change."""
    zones = Zones([zone("z", "z/#", shards=4)], Zone("default"), [], {"default": (0,), "z": (9, 5, 7, 8)})
    z = zones.of(b"z/1")

    assert [zones.shard_of(z, name) for name in ("", "dev-1", "dev-2", "ü")] == [9, 7, 9, 5]
    assert zones.shard_of(zones.default, "dev-1") == 0
    assert zones.shard_ids(z) == (9, 5, 7, 8)


def test_publishers_are_spread_over_the_shards() -> None:
    zones = zones_of(default=Zone("default", shards=8))
    counts = dict.fromkeys(zones.shard_ids(zones.default), 0)
    for number in range(4000):
        counts[zones.shard_of(zones.default, f"device-{number:05d}")] += 1

    assert len(counts) == 8
    assert min(counts.values()) > 400


def test_new_zones_get_the_next_free_ids() -> None:
    stored = {"default": (0,), "gone": (1, 2)}

    assigned = assign_shards(stored, [Zone("default", shards=2), zone("new", "n", shards=2)])

    assert assigned == {"default": (0, 3), "gone": (1, 2), "new": (4, 5)}


def test_a_zone_that_wants_fewer_shards_keeps_its_ids_and_writes_to_the_first() -> None:
    default = Zone("default", shards=2)
    assigned = assign_shards({"default": (0, 1, 2)}, [default])
    zones = Zones([], default, [], assigned)

    assert assigned == {"default": (0, 1, 2)}
    assert zones.shard_ids(default) == (0, 1)


def test_ids_run_out_with_a_word() -> None:
    with pytest.raises(SettingsError, match="only 1 shard ids are free"):
        assign_shards({"old": (65_534,)}, [Zone("default", shards=2)])


def test_a_zone_without_ids_is_our_own_mistake() -> None:
    with pytest.raises(MisuseError, match="2 shards and 1 shard ids"):
        Zones([], Zone("default", shards=2), [], {"default": (0,)})


NAMES = st.sampled_from(["default", "a", "b", "c"])


@given(st.lists(st.dictionaries(NAMES, st.integers(1, 5)), max_size=6))
def test_ids_are_unique_and_stay_whatever_comes_and_goes(restarts: list[dict[str, int]]) -> None:
    """Zones appear, vanish, grow and shrink from one start to the next."""
    stored: dict[str, tuple[int, ...]] = {}
    for wanted in restarts:
        before = stored
        stored = assign_shards(stored, [Zone(name, shards=shards) for name, shards in wanted.items()])
        assert all(stored[name][: len(ids)] == ids for name, ids in before.items())
        assert all(len(stored[name]) >= shards for name, shards in wanted.items())
        every = [shard for ids in stored.values() for shard in ids]
        assert len(every) == len(set(every))
