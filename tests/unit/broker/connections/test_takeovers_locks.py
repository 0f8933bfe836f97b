"""The lock per client id admits the newest of those that wait."""

import asyncio

import pytest

from holdfast.broker.connections.takeovers import ClientLocks
from holdfast.durable.takeover.registry import ChannelVersion

pytestmark = pytest.mark.compiled


def test_of_those_who_wait_for_a_client_id_only_the_newest_is_admitted() -> None:
    async def scenario() -> list[bool]:
        locks = ClientLocks()
        versions = [ChannelVersion(number, 0, number) for number in range(1, 5)]
        assert await locks.enter("c", versions[0])
        second = asyncio.ensure_future(locks.enter("c", versions[1]))
        fourth = asyncio.ensure_future(locks.enter("c", versions[3]))
        third = asyncio.ensure_future(locks.enter("c", versions[2]))
        await asyncio.sleep(0)
        locks.leave("c")
        answers = [await second, await third, await fourth]
        locks.leave("c")
        assert await locks.enter("c", versions[0]), "free again"
        return answers

    assert asyncio.run(scenario()) == [False, False, True]
