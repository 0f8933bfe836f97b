"""Zones as the log gets them."""

import pytest

from holdfast.durable.zones import Zone
from holdfast.model.errors import SettingsError
from holdfast.node.settings.tree import Durability, Listener, Settings, Storage, ZoneSettings
from holdfast.node.settings.zones import parse_thresholds, zones_of


def test_without_zones_there_is_the_default_zone_alone() -> None:
    zones, default, mounts = zones_of(Settings())
    assert (zones, mounts) == ([], [])
    assert vars_of(default) == vars_of(Zone("default", durability="fsync", store_qos0=True))


def test_every_key_of_a_zone_arrives() -> None:
    storage = Storage(
        durability="os",
        shards=2,
        layout="timeline",
        retention_s=100,
        retention_bytes=1000,
        generation_s=10,
        generation_bytes=20,
        optimize_interval_s=30,
        optimize_gain=0.25,
        store_qos0=False,
    )
    zone = ZoneSettings(
        filter="plant/+/#",
        durability="fsync",
        shards=3,
        layout="learned",
        thresholds="5, 4",
        retention_s=200,
        retention_bytes=2000,
        generation_s=11,
        generation_bytes=21,
        optimize_interval_s=31,
        optimize_gain=0.26,
        store_qos0=False,
        deliver_qos1="before_commit",
    )
    zones, default, _mounts = zones_of(Settings(storage=storage, zones={"machines": zone}))
    assert vars_of(default) == vars_of(
        Zone(
            "default",
            durability="os",
            shards=2,
            layout="timeline",
            retention_s=100,
            retention_bytes=1000,
            generation_s=10,
            generation_bytes=20,
            optimize_interval_s=30,
            optimize_gain=0.25,
        )
    )
    assert [vars_of(each) for each in zones] == [
        vars_of(
            Zone(
                "machines",
                ((b"plant", b"+", b"#"),),
                shards=3,
                layout="learned",
                thresholds=(5, 4),
                retention_s=200,
                retention_bytes=2000,
                generation_s=11,
                generation_bytes=21,
                optimize_interval_s=31,
                optimize_gain=0.26,
                deliver_early=True,
            )
        )
    ]


def vars_of(zone: Zone) -> dict[str, object]:
    """What a zone holds: a compiled one has no `__dict__`."""
    names = [name for name in dir(zone) if not name.startswith("_") and name != "check"]
    return {name: getattr(zone, name) for name in names}


def test_a_zone_without_a_durability_has_that_of_the_storage() -> None:
    zones, _default, _mounts = zones_of(
        Settings(storage=Storage(durability="os"), zones={"a": ZoneSettings(filter="a")})
    )
    assert [zone.durability for zone in zones] == ["os"]


@pytest.mark.parametrize("durability", ["fsync", "os", "memory"])
def test_a_zone_that_stores_nothing_promises_no_more_than_memory(durability: Durability) -> None:
    storage = Storage(durability=durability)
    zones, _default, _mounts = zones_of(Settings(storage=storage, zones={"a": ZoneSettings(filter="a", store=False)}))
    assert [(zone.durability, zone.store) for zone in zones] == [("memory", False)]


def test_in_memory_the_other_topics_stay_there_whatever_a_zone_stores() -> None:
    zones, default, _mounts = zones_of(
        Settings(storage=Storage(durability="memory"), zones={"a": ZoneSettings(filter="a")})
    )
    assert not default.store
    assert [(zone.durability, zone.store) for zone in zones] == [("memory", True)]


def test_every_mount_point_comes_once() -> None:
    mounts = ["t/", "", "t/", "u/v/"]
    listeners = {str(number): Listener(mount_point=mount) for number, mount in enumerate(mounts)}
    assert zones_of(Settings(listeners=listeners))[2] == [b"t/", b"u/v/"]


@pytest.mark.parametrize(
    ("zones", "message"),
    [
        ({"a": "x/#", "b": "x/y"}, "zones 'a' and 'b' overlap: some topics match both 'x/#' and 'x/y'"),
        ({"a": "x#"}, "zone filter 'x#'"),
        ({"default": "x"}, "two zones are named 'default'"),
    ],
)
def test_zones_that_cannot_be_are_refused_here_as_well(zones: dict[str, str], message: str) -> None:
    """L17: settings that were made in Python may not have been checked."""
    with pytest.raises(SettingsError) as caught:
        zones_of(Settings(zones={name: ZoneSettings(filter=text) for name, text in zones.items()}))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "numbers"), [("", ()), (" ", ()), ("7", (7,)), ("20,10", (20, 10)), (" 1 , 20000 ", (1, 20_000))]
)
def test_thresholds_are_numbers_by_depth(text: str, numbers: tuple[int, ...]) -> None:
    assert parse_thresholds(text) == numbers


@pytest.mark.parametrize(
    "text", ["0", "-1", "x", "1,", ",", "1;2", "1.5", "20001", "²", "٣", ",".join("1" * 33), "9" * 5000]
)
def test_thresholds_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="right would be at most 32 whole numbers from 1 to 20000"):
        parse_thresholds(text)
