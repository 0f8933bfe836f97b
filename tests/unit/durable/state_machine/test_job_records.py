"""Leases and erasures in the control log: the later word counts, an erasure covers more and never less."""

import pytest

from holdfast.durable.state_machine.job_records import (
    MAX_ERASURES,
    MAX_ITEM_BYTES,
    MAX_LEASES,
    all_erasures,
    all_leases,
    last_job,
)
from holdfast.records.cluster.job_records import ErasureItem, LeaseItem
from tests.unit.durable.state_machine.control_log import ControlLog
from tests.unit.durable.state_machine.vnode import T

pytestmark = pytest.mark.compiled


class JobLog(ControlLog):
    """A control log with one member."""

    def __init__(self) -> None:
        super().__init__()
        self.epoch = 2
        assert self.join(1, 1).counts

    def tell(self, item: LeaseItem | ErasureItem) -> bool:
        return self.write(1, self.epoch, item).counts


def erasure(client: str = "", topic: bytes = b"", *up_to: tuple[int, int]) -> ErasureItem:
    return ErasureItem(client, topic, up_to, T, "ops@host")


def test_a_lease_is_replaced_by_one_that_was_renewed_later() -> None:
    log = JobLog()
    first, second = LeaseItem("lake", T, ((0, 5),)), LeaseItem("lake", T + 1, ((0, 9), (1, 2)))
    assert log.tell(first)
    assert log.tell(second)
    assert last_job(log.tables) == log.sequence
    assert not log.tell(first), "it is late"
    assert not log.tell(second), "it is a repetition"
    assert last_job(log.tables) == log.sequence - 2
    assert all_leases(log.tables) == {"lake": second}


def test_a_lease_that_was_removed_does_not_come_back_by_an_older_word() -> None:
    log = JobLog()
    log.tell(LeaseItem("lake", T, ((0, 5),)))
    assert log.tell(LeaseItem("lake", T + 5, ()))
    assert not log.tell(LeaseItem("lake", T + 4, ((0, 7),)))
    assert all_leases(log.tables)["lake"].is_removed
    assert log.tell(LeaseItem("lake", T + 6, ((0, 7),)))


def test_there_are_so_many_leases_and_the_oldest_removal_makes_room() -> None:
    log = JobLog()
    for number in range(MAX_LEASES):
        assert log.tell(LeaseItem(f"l{number}", T + number, ((0, 1),)))
    assert not log.tell(LeaseItem("one more", T, ((0, 1),)))
    for number in (9, 7):
        assert log.tell(LeaseItem(f"l{number}", T + 1000 + number, ()))
    assert log.tell(LeaseItem("one more", T, ((0, 1),)))
    leases = all_leases(log.tables)
    assert len(leases) == MAX_LEASES
    assert "l7" not in leases
    assert leases["l9"].is_removed


def test_an_erasure_covers_more_with_each_record_and_never_less() -> None:
    log = JobLog()
    assert log.tell(erasure("meter", b"", (0, 5), (2, 7)))
    assert log.tell(erasure("meter", b"", (0, 3), (1, 4)))
    assert not log.tell(erasure("meter", b"", (0, 5), (1, 4)))
    assert log.tell(erasure("", b"meter", (0, 1)))
    assert [(item.client, item.topic, item.up_to) for item in all_erasures(log.tables)] == [
        ("meter", b"", ((0, 5), (1, 4), (2, 7))),
        ("", b"meter", ((0, 1),)),
    ]


def test_what_is_of_no_one_or_too_large_is_rejected() -> None:
    log = JobLog()
    assert not log.tell(erasure("", b"", (0, 1)))
    assert not log.tell(erasure("both", b"a/#", (0, 1)))
    assert not log.tell(erasure("", b"x" * MAX_ITEM_BYTES, (0, 1)))
    assert not log.tell(LeaseItem("", T, ((0, 1),)))
    assert not log.tell(LeaseItem("x" * MAX_ITEM_BYTES, T, ((0, 1),)))
    assert last_job(log.tables) == 0


def test_there_are_so_many_erasures() -> None:
    log = JobLog()
    for number in range(MAX_ERASURES):
        assert log.tell(erasure(f"c{number}", b"", (0, 1)))
    assert not log.tell(erasure("one more", b"", (0, 1)))
    assert log.tell(erasure("c0", b"", (0, 2)))
