"""The founding of a cluster: once, whoever tries, and found by all."""

import asyncio

import pytest

from holdfast.cluster.membership.founding import find_founding, found_cluster
from holdfast.durable.memory_ordered_log import MemoryOrderedLog
from holdfast.model.clock import ManualClock
from holdfast.model.errors import PermanentError, TransientError
from tests.unit.cluster.node_world import settle
from tests.unit.durable.state_machine.control_log import FOUND, control_record, id_of
from tests.unit.durable.state_machine.vnode import CLUSTER_ID

CLOCK = ManualClock()


def test_a_log_without_a_founding_has_none_and_a_second_init_finds_the_first() -> None:
    async def act() -> None:
        log = MemoryOrderedLog(CLOCK)
        assert await find_founding(log) is None
        log.append(b"foreign", lambda _result: None)
        assert await find_founding(log) is None
        row, new = await found_cluster(log, CLUSTER_ID, FOUND, CLOCK)
        assert (row.sequence, row.cluster_id, row.found, new) == (2, CLUSTER_ID, FOUND, True)
        assert await found_cluster(log, id_of(9), FOUND, CLOCK) == (row, False)
        assert (await log.ends()).last == 2, "nothing more is written"

    asyncio.run(act())


def test_of_two_that_found_at_once_both_find_the_first_in_the_log() -> None:
    async def act() -> None:
        log = MemoryOrderedLog(CLOCK)
        log.hold_appends = True
        one = asyncio.create_task(found_cluster(log, id_of(1), FOUND, CLOCK))
        two = asyncio.create_task(found_cluster(log, id_of(2), FOUND, CLOCK))
        await settle()
        log.arrive(1)
        log.arrive(0)
        assert [(row.cluster_id, new) for row, new in (await one, await two)] == [(id_of(2), False), (id_of(2), True)]

    asyncio.run(act())


def test_a_founding_that_the_log_did_not_take_is_an_error_that_passes() -> None:
    async def act() -> None:
        log = MemoryOrderedLog(CLOCK)
        log.lose_appends = 1
        with pytest.raises(TransientError, match="again"):
            await found_cluster(log, CLUSTER_ID, FOUND, CLOCK)
        log.lose_answers = 1
        assert (await found_cluster(log, CLUSTER_ID, FOUND, CLOCK))[1]

    asyncio.run(act())


def test_a_node_waits_for_the_founding() -> None:
    async def act() -> None:
        log = MemoryOrderedLog(CLOCK)
        waiting = asyncio.create_task(find_founding(log, wait=True))
        await settle()
        assert not waiting.done()
        await found_cluster(log, CLUSTER_ID, FOUND, CLOCK)
        row = await waiting
        assert row is not None
        assert row.cluster_id == CLUSTER_ID
        assert log.readings() == []

    asyncio.run(act())


def test_a_log_that_is_replaced_while_a_node_waits_is_an_error_that_passes() -> None:
    async def act() -> None:
        log = MemoryOrderedLog(CLOCK)
        waiting = asyncio.create_task(find_founding(log, wait=True))
        await settle()
        log.replace("memory-2")
        with pytest.raises(TransientError):
            await waiting

    asyncio.run(act())


def test_a_founding_that_was_trimmed_or_cannot_be_read_is_no_missing_one() -> None:
    async def act() -> None:
        log = MemoryOrderedLog(CLOCK)
        damaged = bytearray(control_record(0, 0, 0, FOUND))
        damaged[-1] ^= 1
        log.append(bytes(damaged), lambda _result: None)
        with pytest.raises(PermanentError, match="record 1"):
            await found_cluster(log, CLUSTER_ID, FOUND, CLOCK)
        log.append(b"foreign", lambda _result: None)
        await log.trim(2)
        with pytest.raises(PermanentError, match="trimmed"):
            await find_founding(log)

    asyncio.run(act())
