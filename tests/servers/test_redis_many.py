"""What goes to one Redis for many clients in one call, and what one of them has to do with another."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from redis import Redis

from bench.ports import free_port
from bench.queues.redis_server import RedisServer
from holdfast.durable.queues.queue_store import AppendBatch, Appended
from holdfast.model.errors import PermanentError, TransientError
from holdfast.storage.redis.connection_pool import Argument, RedisPool, Reply
from holdfast.storage.redis.options import RedisOptions
from holdfast.storage.redis.queues import RedisQueues
from tests.servers.entries import PLENTY, SECOND_US, Steps, append, entries, entry, limits, numbers


def test_packs_of_many_clients_are_one_script_call(redis_store: RedisQueues, steps: Steps, raw: Redis) -> None:
    """T2"""
    steps(append(redis_store, "warm", entries(1)))
    raw.config_resetstat()

    steps(redis_store.append([AppendBatch(f"c{place}", entries(*range(1, 6)), PLENTY) for place in range(100)]))

    calls = {name: each["calls"] for name, each in raw.info("commandstats").items() if name != "cmdstat_info"}
    assert calls == {"cmdstat_evalsha": 1, "cmdstat_get": 100, "cmdstat_zadd": 100, "cmdstat_mset": 2} | {
        name: 1 for name in calls if name == "cmdstat_config|resetstat"
    }


def test_a_queue_that_is_none_does_not_spoil_those_beside_it(
    redis_store: RedisQueues, redis_options: RedisOptions, steps: Steps, raw: Redis
) -> None:
    steps(append(redis_store, "b", entries(1)))
    for key, client_id in ((":queue", "queue"), (":state", "state"), (":state", "short")):
        name = f"{redis_options.prefix}{{{client_id}}}{key}"
        raw.set(name, "no state") if client_id == "short" else raw.hset(name, "a", "b")
    soon_us = steps.clock.wall_us() + 500 * SECOND_US
    raw.set(f"{redis_options.prefix}{{expiring}}:expiring", "x")
    wrong = ["queue", "state", "short", "expiring"]

    answers = steps(
        redis_store.append(
            [
                AppendBatch(client_id, [entry(2), entry(3, expires_us=soon_us)], PLENTY)
                for client_id in ("a", "queue", "state", "b", "short", "expiring", "c")
            ]
        )
    )

    taken = [answer.serials if isinstance(answer, Appended) else type(answer) for answer in answers]
    refused = PermanentError
    assert taken == [[1, 2], refused, refused, [2, 3], refused, refused, [1, 2]]
    assert "WRONGTYPE" in str(answers[1])
    assert [steps(numbers(redis_store, client_id)) for client_id in "abc"] == [[2, 3], [1, 2, 3], [2, 3]]
    for client_id in wrong:
        assert not raw.exists(f"{redis_options.prefix}{{{client_id}}}:1"), "nothing of them is there"


@pytest.mark.parametrize("pipelined", [True, False])
def test_calls_follow_each_other_at_once_or_one_waits_for_the_other(
    redis_options: RedisOptions, steps: Steps, monkeypatch: pytest.MonkeyPatch, pipelined: bool
) -> None:
    together: list[int] = []
    run = RedisPool.run

    async def counted(line: RedisPool, commands: Sequence[Sequence[Argument]], timeout_s: float) -> list[Reply]:
        together.append(sum(command[0] == b"EVALSHA" for command in commands))
        return await run(line, commands, timeout_s)

    store = RedisQueues(replace(redis_options, pipelined=pipelined), steps.clock)
    steps(append(store, "warm", entries(1)))
    monkeypatch.setattr(RedisPool, "run", counted)

    answers = steps(store.append([AppendBatch(client_id, entries(2, 3), PLENTY) for client_id in ("a", "b", "c")]))
    steps(store.close())

    assert [answer.serials for answer in answers if isinstance(answer, Appended)] == [[1, 2]] * 3
    assert together == ([1] if pipelined else [1, 1, 1])


def test_what_a_client_lost_is_told_though_another_one_was_refused(own_redis: RedisServer, steps: Steps) -> None:
    """T4: Redis has no room for one more queue; in another one, the oldest message makes it."""
    store = RedisQueues(RedisOptions((own_redis.url,), give_up_s=0.1), steps.clock)
    steps(append(store, "full", entries(1, 2, 3)))
    own_redis.ask("CONFIG", "SET", "maxmemory", "1")

    new, full = steps(
        store.append([AppendBatch("new", entries(4), PLENTY), AppendBatch("full", entries(4), limits(3))])
    )

    assert isinstance(new, TransientError)
    assert isinstance(full, Appended)
    assert (full.serials, full.dropped) == ([4], 1)
    own_redis.ask("CONFIG", "SET", "maxmemory", "0")
    assert steps(numbers(store, "full")) == [2, 3, 4]
    steps(store.close())


def test_one_server_with_the_rules_of_a_cluster_gets_one_client_in_a_call(tmp_path: Path, steps: Steps) -> None:
    with closing(RedisServer(tmp_path, cluster_enabled="yes", cluster_port=free_port()).start()) as server:
        server.ask("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
        store = RedisQueues(RedisOptions((server.url,)), steps.clock)

        answers = steps(store.append([AppendBatch(name, entries(1, 2), PLENTY) for name in ("a", "b", "c")]))

        assert [answer.serials for answer in answers if isinstance(answer, Appended)] == [[1, 2]] * 3
        steps(store.close())


def test_a_client_with_much_to_remove_does_not_have_the_next_ones_wait_for_it(
    redis_store: RedisQueues, steps: Steps, raw: Redis
) -> None:
    soon_us = steps.clock.wall_us() + SECOND_US
    many = range(1, 12_001)
    steps(append(redis_store, "a", [entry(number, b"", expires_us=soon_us) for number in many]))
    steps(append(redis_store, "b", entries(*many), limits(20_000)))
    steps.clock.advance(2 * SECOND_US)
    raw.config_resetstat()

    packs = [
        AppendBatch("a", entries(20_000), PLENTY),
        AppendBatch("b", entries(20_000), limits(10)),
        AppendBatch("c", entries(5), PLENTY),
    ]
    answers = steps(redis_store.append(packs))

    found = [(answer.serials, answer.dropped) for answer in answers if isinstance(answer, Appended)]
    assert found == [([12_001], 0), ([12_001], 11_991), ([1], 0)]
    assert raw.info("commandstats")["cmdstat_evalsha"]["calls"] == 3, "one for each that has much to remove"
