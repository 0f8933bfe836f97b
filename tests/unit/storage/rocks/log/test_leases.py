"""A lease holds up retention, for as long as somebody renews it and the disk has room."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from holdfast.cli.storage.leases import leases as leases_verb
from holdfast.durable.zones import Zone
from holdfast.files.replacement import read_json
from holdfast.model.errors import PermanentError
from holdfast.model.message import Message
from holdfast.records.generations import Generation
from holdfast.storage.rocks.log import leases as leases_module
from holdfast.storage.rocks.log.leases import (
    FOLDER_NAME,
    MAX_LEASES,
    BrokenLease,
    Lease,
    Leases,
    broken_leases,
    check_name,
    note_broken,
    read_leases,
    remove_lease,
    renew_lease,
)
from holdfast.storage.rocks.log.maintenance import Maintenance
from tests.disk_world import DiskWorld, publish
from tests.unit.storage.rocks.log.store import HOUR_US, SECOND_US, Store

MAX_AGE_S = 3600 * 24


class World:
    """A log of three generations, of which retention would drop two."""

    def __init__(self, folder: Path) -> None:
        self.store = Store(folder, default=Zone("default", retention_s=600, generation_s=60))
        self.leases = Leases(folder, MAX_AGE_S)
        self.maintenance = Maintenance(self.store.log, leases=self.leases)
        self.made: list[list[Message]] = []
        for number in range(3):
            self.store.clock.advance(SECOND_US)
            if number:
                self.store.rotate()
            self.store.clock.advance(SECOND_US)
            self.made.append(self.store.publish("a", "a"))
        self.store.clock.advance(HOUR_US)

    def tick(self) -> list[int]:
        """The numbers of the generations that are left."""
        for _generation in range(4):
            self.maintenance.tick()
            self.store.settle()
        return [generation.record.number for generation in self.store.log.zone_logs["default"].live]

    def renew(self, name: str, message: Message | None, age_us: int = 0) -> None:
        done_us = 0 if message is None else message.position_us
        renew_lease(self.store.folder, name, {0: done_us}, self.store.clock.wall_us() - age_us)

    def names(self) -> list[str]:
        return [lease.name for lease in read_leases(self.store.folder)]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "data")
    yield world
    world.store.close()


def test_without_a_lease_retention_waits_for_nobody(world: World) -> None:
    left = world.tick()
    assert not {1, 2} & set(left)


def test_a_generation_stays_until_a_lease_has_passed_its_last_message(world: World) -> None:
    world.renew("lake", None)
    assert world.tick()[0] == 1
    world.renew("lake", world.made[0][-2])
    assert world.tick()[0] == 1
    world.renew("lake", world.made[0][-1])
    assert world.tick()[0] == 2
    world.renew("lake", world.made[1][-1])
    assert world.tick()[0] > 2


def test_the_slowest_of_several_leases_decides(world: World) -> None:
    world.renew("fast", world.made[1][-1])
    world.renew("slow", world.made[0][-1])
    assert world.tick()[0] == 2
    assert remove_lease(world.store.folder, "slow")
    assert world.tick()[0] > 2


def test_a_lease_on_other_shards_holds_nothing(world: World) -> None:
    renew_lease(world.store.folder, "other", {7: 0}, world.store.clock.wall_us())
    assert not {1, 2} & set(world.tick())
    assert world.names() == ["other"]


def test_a_lease_that_has_everything_of_a_shard_does_not_hold_its_empty_end() -> None:
    """The generation goes on longer for another shard."""
    record = Generation("default", 1, "timeline", {}, 10, (0, 1), 10, end_us=100, last_serials=(5, 2))
    lease = Lease("lake", 5, {0: 99, 1: 50})
    assert not lease.needs(record, {0: 99, 1: 50})
    assert lease.needs(record, {0: 99, 1: 51})
    assert lease.needs(record, {0: 99})  # not known: a shard that the zone has no more
    assert not Lease("lake", 5, {0: 99, 1: 99}).needs(record, {0: 200, 1: 200})
    assert Lease("lake", 5, {0: 98, 1: 99}).needs(record, {0: 200, 1: 200})


def test_a_lease_that_is_not_renewed_is_broken(world: World) -> None:
    world.renew("dead", None, age_us=(MAX_AGE_S + 1) * SECOND_US)
    world.renew("alive", world.made[0][-1], age_us=(MAX_AGE_S - 1) * SECOND_US)
    assert world.tick()[0] == 2
    assert world.names() == ["alive"]


def test_an_old_lease_that_holds_nothing_up_is_left_alone(world: World) -> None:
    world.renew("done", world.made[2][-1], age_us=(MAX_AGE_S + 1) * SECOND_US)
    world.tick()
    assert world.names() == ["done"]


def test_a_disk_without_space_breaks_the_lease_renewed_longest_ago_first(world: World) -> None:
    world.renew("younger", None)
    world.renew("older", world.made[0][-1], age_us=SECOND_US)
    world.renew("oldest", world.made[2][-1], age_us=9 * SECOND_US)
    world.leases.short_of_space = True
    world.maintenance.tick()
    # `younger` alone holds the first generation: breaking another would free nothing yet.
    assert world.names() == ["older", "oldest"]
    world.maintenance.tick()
    world.store.settle()
    assert world.names() == ["oldest"]
    assert not {1, 2} & set(world.tick())


def test_whoever_watches_the_disk_says_when_it_is_short_of_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DiskWorld(tmp_path / "data", min_free_bytes=100) as world:
        publish(world, ("a", b"1"))
        world.do(lambda: world.disk.maintenance.rotate(world.disk.log.zone_logs["default"]))
        world.settle()
        zone = world.disk.log.zone_logs["default"]
        renew_lease(tmp_path / "data", "lake", {0: 0}, world.clock.wall_us())
        for free_bytes, held in ((10_000, True), (150, False)):
            usage = SimpleNamespace(free=free_bytes, total=100_000)
            monkeypatch.setattr(shutil, "disk_usage", lambda _folder, usage=usage: usage)
            world.tick()
            assert world.disk.leases.hold(zone.live[0].record, {}, world.clock.wall_us()) is held


def test_with_space_again_leases_hold_again(world: World) -> None:
    world.renew("lake", None)
    world.leases.short_of_space = True
    world.maintenance.tick()
    assert world.names() == []
    world.leases.short_of_space = False
    world.renew("lake", world.made[0][-1])
    world.store.settle()
    assert world.tick()[0] == 2


def test_a_broken_lease_is_on_record_until_it_is_renewed_or_removed(world: World) -> None:
    folder = world.store.folder
    for name in ("returns", "given.up"):
        world.renew(name, None, age_us=(MAX_AGE_S + 1) * SECOND_US)
    world.tick()
    broken_us = world.store.clock.wall_us()
    why = "it was not renewed for too long"
    assert broken_leases(folder) == [BrokenLease("given.up", broken_us, why), BrokenLease("returns", broken_us, why)]
    assert world.names() == []
    world.renew("returns", world.made[2][-1])
    assert [lease.name for lease in broken_leases(folder)] == ["given.up"]
    assert remove_lease(folder, "given.up")
    assert not remove_lease(folder, "given.up")
    assert broken_leases(folder) == []


def test_a_lease_is_broken_also_if_nothing_can_be_noted(world: World) -> None:
    world.renew("lake", None, age_us=(MAX_AGE_S + 1) * SECOND_US)
    (world.store.folder / FOLDER_NAME / "lake.broken").mkdir()  # no file can take its place
    assert not {1, 2} & set(world.tick())
    assert world.names() == []


def test_records_of_broken_leases_cannot_fill_a_folder(tmp_path: Path) -> None:
    for number in range(MAX_LEASES + 3):
        lease = renew_lease(tmp_path, f"lease-{number}", {0: 1}, 5)
        note_broken(tmp_path, lease, 10 + number, "the disk is short of space")
    assert len(broken_leases(tmp_path)) == MAX_LEASES
    assert min(lease.broken_us for lease in broken_leases(tmp_path)) == 13


def test_a_lease_that_is_renewed_while_it_is_broken_stays(tmp_path: Path) -> None:
    """Its pipeline does not know that it was about to be."""
    seen = renew_lease(tmp_path, "lake", {0: 1}, 5)
    renewed = renew_lease(tmp_path, "lake", {0: 7}, 9)
    note_broken(tmp_path, seen, 10, "it was not renewed for too long")
    assert read_leases(tmp_path) == [renewed]
    assert broken_leases(tmp_path) == []


def test_a_record_that_was_damaged_is_still_one(tmp_path: Path) -> None:
    note_broken(tmp_path, renew_lease(tmp_path, "lake", {0: 1}, 5), 10, "the disk is short of space")
    (tmp_path / FOLDER_NAME / "lake.broken").write_text("{")
    assert broken_leases(tmp_path) == [BrokenLease("lake", 0, "its record cannot be read")]


def test_a_lease_that_is_renewed_while_records_are_read_is_not_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("lake", "report"):
        note_broken(tmp_path, renew_lease(tmp_path, name, {0: 1}, 5), 10, "the disk is short of space")

    def read_late(path: Path, version: int) -> dict[str, Any]:
        renew_lease(tmp_path, "report", {0: 2}, 20)
        return read_json(path, version)

    monkeypatch.setattr(leases_module, "read_json", read_late)
    assert [lease.name for lease in broken_leases(tmp_path)] == ["lake"]


def test_a_damaged_lease_holds_nothing(world: World) -> None:
    world.renew("lake", None)
    path = world.store.folder / FOLDER_NAME / "lake.json"
    for content in ("", "[]", "{}", '{"version": 2}', '{"version": 1, "renewed_us": 5, "positions": {"x": 1}}'):
        path.write_text(content)
        assert world.names() == []
    (path.parent / ".lake.abc").write_text("half of a new one")
    assert not {1, 2} & set(world.tick())


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", ".hidden", "a b", "x" * 101, "a\n"])
def test_a_name_that_leads_elsewhere_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(PermanentError, match="is no name for a lease"):
        check_name(name)
    with pytest.raises(PermanentError, match="is no name for a lease"):
        renew_lease(tmp_path, name, {0: 1}, 5)


def test_what_was_renewed_is_read_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    renew_lease(tmp_path, "lake", {3: 7, 0: 5}, 10)
    renew_lease(tmp_path, "lake", {3: 8, 0: 5}, 11)
    [lease] = read_leases(tmp_path)
    assert lease == ("lake", 11, {0: 5, 3: 8})
    assert [path.name for path in (tmp_path / FOLDER_NAME).iterdir()] == ["lake.json"]
    assert remove_lease(tmp_path, "lake")
    assert not remove_lease(tmp_path, "lake")


def test_leases_cannot_fill_a_folder(tmp_path: Path) -> None:
    for number in range(MAX_LEASES):
        renew_lease(tmp_path, f"lease-{number}", {0: 1}, 5)
    with pytest.raises(PermanentError, match=f"there are {MAX_LEASES} leases"):
        renew_lease(tmp_path, "one-more", {0: 1}, 5)
    renew_lease(tmp_path, "lease-7", {0: 2}, 6)


@pytest.mark.parametrize("positions", [{}, {-1: 5}, {2**16: 5}, {0: -1}])
def test_a_lease_without_places_is_refused(positions: dict[int, int], tmp_path: Path) -> None:
    with pytest.raises(PermanentError, match="a lease says for each shard"):
        renew_lease(tmp_path, "lake", positions, 5)


def test_the_verb_tells_of_broken_leases_and_removes_them(world: World) -> None:
    app = typer.Typer()
    app.command()(leases_verb)
    world.renew("lake", None, age_us=(MAX_AGE_S + 1) * SECOND_US)
    world.tick()
    asked = ["--data", str(world.store.folder)]
    told = CliRunner().invoke(app, [*asked, "--json"])
    (row,) = json.loads(told.stdout)
    assert (row["name"], row["broken_us"]) == ("lake", world.store.clock.wall_us())
    assert row["why"] == "it was not renewed for too long"
    assert row["positions"] is row["behind_s"] is row["renewed_us"] is row["age_s"] is None
    assert "the lease 'lake' was broken on " in told.stderr
    assert f"holdfast leases --data {world.store.folder} --remove lake" in told.stderr
    assert CliRunner().invoke(app, [*asked, "--remove", "lake"]).exit_code == 0
    assert CliRunner().invoke(app, asked).stderr == ""


def test_the_verb_lists_and_removes(world: World) -> None:
    app = typer.Typer()
    app.command()(leases_verb)
    world.renew("lake", world.made[0][-1])
    asked = ["--data", str(world.store.folder)]
    listed = json.loads(CliRunner().invoke(app, [*asked, "--json"]).stdout)
    assert [row["name"] for row in listed] == ["lake"]
    assert listed[0]["positions"] == {"0": world.made[0][-1].position_us}
    assert listed[0]["broken_us"] is listed[0]["why"] is None
    assert listed[0]["behind_s"] == (world.made[2][-1].position_us - world.made[0][-1].position_us) / SECOND_US
    assert "lake" in CliRunner().invoke(app, asked).stdout
    assert CliRunner().invoke(app, [*asked, "--remove", "lake"]).exit_code == 0
    assert CliRunner().invoke(app, [*asked, "--remove", "lake"]).exit_code == 1
    assert json.loads(CliRunner().invoke(app, [*asked, "--json"]).stdout) == []
