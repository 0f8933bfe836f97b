"""Client queues in a Redis Cluster: masters that die, slots that move."""

import asyncio
from collections.abc import Iterator
from itertools import count

import pytest
from redis import Redis

from bench.queues.processes import until
from bench.queues.redis_server import MASTERS, PACKAGE, PROGRAM, RedisCluster, RedisServer
from holdfast.durable.queues.queue_store import AppendBatch, Appended
from holdfast.model.errors import TransientError
from holdfast.storage.redis.keys import base_key, slot_of_key
from holdfast.storage.redis.options import RedisOptions
from holdfast.storage.redis.queues import RedisQueues
from tests.servers.entries import PLENTY, Steps, append, entries, entry, numbers
from tests.servers.test_rules import CLIENT_IDS
from tests.services import need

pytestmark = pytest.mark.slow


def test_no_command_crosses_slots(redis_cluster: RedisCluster, cluster_options: RedisOptions, steps: Steps) -> None:
    """T1 T14"""
    store = RedisQueues(cluster_options, steps.clock)
    soon_us = steps.clock.wall_us() + 500_000_000

    answers = steps(
        store.append([AppendBatch(each, [entry(1), entry(2, expires_us=soon_us)], PLENTY) for each in CLIENT_IDS])
    )

    assert [answer.serials for answer in answers if isinstance(answer, Appended)] == [[1, 2]] * len(CLIENT_IDS)
    used: set[int] = set()
    for place, member in enumerate(redis_cluster.members[:3]):
        with Redis(port=member.port) as raw:
            found = [key for key in raw.scan_iter("*") if key.startswith(cluster_options.prefix.encode())]
            slots = {raw.execute_command("CLUSTER KEYSLOT", key) for key in found}
        assert not slots & used
        used |= slots
        assert found, f"master {place} has its share"
    assert used == {slot_of_key(base_key(cluster_options.prefix.encode(), each)) for each in CLIENT_IDS}
    steps(store.close())


@pytest.fixture
def own_cluster() -> Iterator[RedisCluster]:
    """A cluster for one test, to be treated badly."""
    need(PROGRAM, PACKAGE)
    cluster = RedisCluster()
    try:
        yield cluster.start()
    finally:
        cluster.close()


def test_a_master_that_dies_takes_nothing_with_it_that_was_acknowledged(
    own_cluster: RedisCluster, steps: Steps
) -> None:
    """T13 T14: twice, another master each time, while packs are being appended."""
    options = RedisOptions(
        own_cluster.urls, cluster=True, replicas=1, replicas_timeout_s=0.5, timeout_s=2.0, give_up_s=2.0
    )
    store = RedisQueues(options, steps.clock)
    clients = [f"client {place}" for place in range(30)]
    acknowledged: dict[str, list[int]] = {client_id: [] for client_id in clients}
    uncertain: dict[str, list[int]] = {client_id: [] for client_id in clients}
    given = count(1)

    async def give() -> None:
        """A pack for everybody: again what is uncertain, and two more."""
        packs = [
            AppendBatch(each, entries(*uncertain[each], *(next(given) for _ in range(2))), PLENTY) for each in clients
        ]
        for pack, answer in zip(packs, await store.append(packs), strict=True):
            sent = [each.number for each in pack.entries]
            if isinstance(answer, Appended):
                acknowledged[pack.client_id] += sent
                uncertain[pack.client_id] = []
            else:
                assert isinstance(answer, TransientError), answer
                uncertain[pack.client_id] = sent

    async def story() -> None:
        for _ in range(2):
            for _ in range(5):
                await give()
            victim = own_cluster.masters()[0]
            async with asyncio.TaskGroup() as at_once:
                at_once.create_task(give())
                at_once.create_task(asyncio.to_thread(victim.kill))
            await give()
            # It comes back as a copy of the one that took over: without a copy nothing is acknowledged.
            until(lambda: len(own_cluster.masters()) == MASTERS, "a copy takes over")
            victim.start()
            while any(uncertain.values()):
                await give()
            until(own_cluster.whole, "the cluster is whole again")

    steps(story())

    for client_id in clients:
        assert steps(numbers(store, client_id)) == acknowledged[client_id], "nothing is lost, nothing twice"
    steps(store.close())


def test_a_slot_that_moves_is_waited_for_and_followed(
    redis_cluster: RedisCluster, cluster_options: RedisOptions, steps: Steps
) -> None:
    """T14: no script runs on half a queue, and the queue goes on where it has moved to."""
    hasty = RedisQueues(
        RedisOptions(cluster_options.urls, cluster=True, prefix=cluster_options.prefix, give_up_s=0.2), steps.clock
    )
    store = RedisQueues(cluster_options, steps.clock)
    steps(append(store, "c", entries(1, 2)))
    slot = slot_of_key(base_key(cluster_options.prefix.encode(), "c"))
    masters = {member.port: member for member in redis_cluster.masters()}
    (source_port,) = [port for port, member in masters.items() if _keys_in(member, slot)]
    target_port = next(port for port in masters if port != source_port)
    source, target = masters[source_port], masters[target_port]
    source_id, target_id = [each.ask("CLUSTER", "MYID").split("\r\n")[1] for each in (source, target)]
    target.ask("CLUSTER", "SETSLOT", str(slot), "IMPORTING", source_id)
    source.ask("CLUSTER", "SETSLOT", str(slot), "MIGRATING", target_id)

    for moved in (0, 2):
        for key in _keys_in(source, slot)[:moved]:
            source.ask("MIGRATE", "127.0.0.1", str(target_port), key, "0", "5000")
        (answer,) = steps(hasty.append([AppendBatch("c", entries(3), PLENTY)]))
        assert isinstance(answer, TransientError), "the slot is on its way"
    for key in _keys_in(source, slot):
        source.ask("MIGRATE", "127.0.0.1", str(target_port), key, "0", "5000")
    for member in (target, source):
        member.ask("CLUSTER", "SETSLOT", str(slot), "NODE", target_id)

    assert steps(append(store, "c", entries(2, 3, 4))).serials == [2, 3, 4]
    assert steps(numbers(store, "c")) == [1, 2, 3, 4]
    steps(hasty.close())
    steps(store.close())


def _keys_in(member: RedisServer, slot: int) -> list[str]:
    with Redis(port=member.port) as raw:
        return list(raw.execute_command("CLUSTER GETKEYSINSLOT", slot, 1000))
