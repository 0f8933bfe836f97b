"""Decisions of the control log in a vnode: the latest counts, and an impossible one counts for nothing."""

import pytest

from holdfast.records.cluster.items import ChangeSettings, Level
from holdfast.records.cluster.settings import VnodeSettings, VnodeZone
from tests.unit.durable.state_machine.vnode import DEFAULT, Vnode

pytestmark = pytest.mark.compiled


def zone(name: str, shard: int, *filters: bytes) -> VnodeZone:
    return VnodeZone(name, shard, "learned", {}, filters)


def test_settings_of_an_earlier_or_the_same_decision_change_nothing() -> None:
    vnode = Vnode()
    wider = VnodeSettings((DEFAULT, zone("p", 1, b"p/#")))
    assert vnode.write(1, ChangeSettings(1, wider)).accepted == [False]
    assert vnode.write(1, ChangeSettings(5, wider)).accepted == [True]
    assert vnode.write(2, ChangeSettings(5, wider), ChangeSettings(4, wider)).accepted == [False, False]


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(VnodeSettings((DEFAULT, zone("p", 1, b"p/#"), zone("q", 2, b"+/x"))), id="zones overlap"),
        pytest.param(VnodeSettings((DEFAULT, zone("p", 0, b"p/#"))), id="two zones have one shard"),
        pytest.param(VnodeSettings((zone("default", 3),)), id="a zone has another shard than before"),
        pytest.param(VnodeSettings((zone("other", 0),)), id="a new zone takes the shard of an old one"),
        pytest.param(VnodeSettings((DEFAULT, zone("p", 1, b"p/#/x"))), id="a filter is none"),
        pytest.param(VnodeSettings((DEFAULT, zone("p", 1, b"\xff"))), id="a filter is not UTF-8"),
        pytest.param(VnodeSettings((DEFAULT, zone("p", 1, b"$SYS/#"))), id="a zone names $SYS"),
        pytest.param(VnodeSettings((DEFAULT, zone("", 1, b"p/#"))), id="a zone has no name"),
        pytest.param(VnodeSettings((DEFAULT, zone("p", 1, b"p/#")), (b"t",)), id="a mount point is none"),
    ],
)
def test_settings_that_are_impossible_change_nothing(settings: VnodeSettings) -> None:
    """L17: zones of a vnode that overlap among them."""
    vnode = Vnode()
    rows = {key: value for key, value in vnode.tables.rows().items() if key[1] not in (b"\x01", b"\x02")}
    assert vnode.write(9, ChangeSettings(7, settings)).accepted == [False]
    changed = {key for key, value in vnode.tables.rows().items() if rows.get(key) != value}
    assert {key[1][:1] for key in changed} <= {b"\x01", b"\x02", b"\x03"}


def test_a_zone_that_comes_back_keeps_its_shard() -> None:
    vnode = Vnode(settings=VnodeSettings((DEFAULT, zone("p", 1, b"p/#"))))
    assert vnode.write(1, ChangeSettings(2, VnodeSettings((DEFAULT,)))).accepted == [True]
    assert vnode.write(1, ChangeSettings(3, VnodeSettings((DEFAULT, zone("p", 2, b"p/#"))))).accepted == [False]
    assert vnode.write(1, ChangeSettings(3, VnodeSettings((DEFAULT, zone("q", 1, b"p/#"))))).accepted == [False]
    assert vnode.write(1, ChangeSettings(3, VnodeSettings((DEFAULT, zone("p", 1, b"x/#"))))).accepted == [True]


def test_a_level_only_grows() -> None:
    vnode = Vnode()
    assert vnode.write(1, Level(1), Level(2), Level(2), Level(1)).accepted == [False, True, False, False]
