"""Client queues in one Redis: its keys, its scripts, and what its loss does."""

from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from redis import Redis
from redis.crc import key_slot

from bench.queues.processes import free_port
from bench.queues.redis_server import PACKAGE, PROGRAM, RedisServer
from holdfast.durable.queue_store import Appended, Pack
from holdfast.model.errors import MisuseError, PermanentError, SettingsError, TransientError
from holdfast.storage.redis import scripts
from holdfast.storage.redis.keys import STATE, base_key, decode_tag, encode_tag, slot_of_key
from holdfast.storage.redis.line import Argument, Line, Reply
from holdfast.storage.redis.options import RedisOptions
from holdfast.storage.redis.queues import RedisQueues
from tests.servers.entries import PLENTY, SECOND_US, Steps, append, entries, entry, limits, numbers
from tests.servers.test_rules import CLIENT_IDS
from tests.services import need
from tests.unit.server.certificates import Authority

#: What a user needs (docs/guide/redis-queues.md).
RIGHTS = (
    "on >p@ss ~holdfast:* +evalsha +script|load +scan +wait +get +hset +mget +mset +set +setrange +exists "
    "+unlink +zadd +zcard +zrange +zrangebyscore +zrem"
)


@pytest.fixture
def raw(redis: RedisServer) -> Iterator[Redis]:
    with Redis(port=redis.port) as connection:
        yield connection


def keys(raw: Redis, options: RedisOptions) -> set[bytes]:
    return {key for key in raw.scan_iter("*") if key.startswith(options.prefix.encode())}


@pytest.fixture
def own_redis(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    """A Redis for one test, to be treated badly."""
    need(PROGRAM, PACKAGE)
    server = RedisServer(**getattr(request, "param", {}))
    try:
        yield server.start()
    finally:
        server.close()


@pytest.mark.parametrize("client_id", CLIENT_IDS)
def test_all_keys_of_a_client_lie_in_one_slot(client_id: str) -> None:
    """T1"""
    assert decode_tag(encode_tag(client_id)) == client_id
    base = base_key(b"some:", client_id)
    slots = {key_slot(base + suffix) for suffix in (b"", b":state", b":queue", b":expiring", b":17")}
    assert slots == {slot_of_key(base)}
    assert key_slot(base) == key_slot(encode_tag(client_id)), "not of the whole key"


def test_the_tags_of_different_clients_differ() -> None:
    """T1"""
    assert len({encode_tag(client_id) for client_id in CLIENT_IDS}) == len(CLIENT_IDS)


@pytest.mark.parametrize(
    "wrong",
    [
        {"urls": ()},
        {"urls": ("http://127.0.0.1",)},
        {"prefix": "a{b"},
        {"prefix": "}"},
        {"cluster": True, "urls": ("redis://127.0.0.1/2",)},
        {"replicas": -1},
        {"replicas": 1, "replicas_timeout_s": 5.0, "timeout_s": 5.0},
        {"connections": 0},
    ],
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(SettingsError):
        RedisOptions(**{"urls": ("redis://127.0.0.1:1",), **wrong})  # type: ignore[arg-type]


def test_an_error_does_not_tell_the_password() -> None:
    with pytest.raises(SettingsError) as told:
        RedisOptions(("http://user:secret@127.0.0.1",))
    assert "secret" not in str(told.value)


def test_packs_of_many_clients_are_one_script_call(redis_store: RedisQueues, steps: Steps, raw: Redis) -> None:
    """T2"""
    steps(append(redis_store, "warm", entries(1)))
    raw.config_resetstat()

    steps(redis_store.append([Pack(f"c{place}", entries(*range(1, 6)), PLENTY) for place in range(100)]))

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
                Pack(client_id, [entry(2), entry(3, expires_us=soon_us)], PLENTY)
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
    run = Line.run

    async def counted(line: Line, commands: Sequence[Sequence[Argument]], timeout_s: float) -> list[Reply]:
        together.append(sum(command[0] == b"EVALSHA" for command in commands))
        return await run(line, commands, timeout_s)

    store = RedisQueues(replace(redis_options, pipelined=pipelined), steps.clock)
    steps(append(store, "warm", entries(1)))
    monkeypatch.setattr(Line, "run", counted)

    answers = steps(store.append([Pack(client_id, entries(2, 3), PLENTY) for client_id in ("a", "b", "c")]))
    steps(store.close())

    assert [answer.serials for answer in answers if isinstance(answer, Appended)] == [[1, 2]] * 3
    assert together == ([1] if pipelined else [1, 1, 1])


def test_a_pack_that_cannot_be_sent_is_told_by_its_own_error_and_those_before_it_are_kept(
    redis_store: RedisQueues, steps: Steps
) -> None:
    packs = [Pack("a", entries(*range(1, 601)), PLENTY), Pack("b", [entry(0)], PLENTY)]

    with pytest.raises(MisuseError, match="a number that is not above 0"):
        steps(redis_store.append(packs))

    assert steps(redis_store.size("a")).messages == 600


@pytest.mark.slow
def test_order_holds_beyond_65535_messages(redis_store: RedisQueues, steps: Steps) -> None:
    """T3 T5"""
    count = 65_535 + 2_000
    for start in range(1, count, 5000):
        pack = entries(*range(start, min(start + 5000, count + 1)))
        assert steps(append(redis_store, "c", pack, limits(100_000))).dropped == 0

    assert steps(redis_store.size("c")).messages == count
    assert steps(numbers(redis_store, "c", 65_530, 10)) == list(range(65_531, 65_541))
    assert steps(numbers(redis_store, "c", 0, 3)) == [1, 2, 3], "nothing was overwritten"


def test_numbers_beyond_the_reach_of_lua_are_told_apart(redis_store: RedisQueues, steps: Steps) -> None:
    """T13"""
    big = 2**63
    assert steps(append(redis_store, "c", entries(big, big + 1))).serials == [1, 2]
    assert steps(append(redis_store, "c", entries(big + 1, big + 2))).serials == [2, 3]
    assert steps(redis_store.last("c")) == (3, big + 2)


def test_values_have_a_time_to_live_and_keep_it(
    redis_store: RedisQueues, redis_options: RedisOptions, steps: Steps, raw: Redis
) -> None:
    """T4 T8"""
    soon_us = steps.clock.wall_us() + 500 * SECOND_US
    far_us = steps.clock.wall_us() + 0xFFFF_FFFF * SECOND_US
    steps(append(redis_store, "c", [entry(1, expires_us=soon_us), entry(2), entry(3, expires_us=far_us)]))
    names = [f"{redis_options.prefix}{{c}}:{serial}" for serial in (1, 2, 3)]
    assert 490_000 < raw.pttl(names[0]) <= 500_000
    assert raw.pttl(names[1]) == -1
    assert raw.pttl(names[2]) > 4_294_900_000_000

    raw.pexpire(names[0], 300_000)
    steps(redis_store.release("c", [1, 2]))

    assert 290_000 < raw.pttl(names[0]) <= 300_000
    assert raw.pttl(names[1]) == -1
    assert [each.released for each in steps(redis_store.read("c", 0, 10))] == [True, True, False]


def test_reading_removes_references_to_what_redis_has_removed(
    redis_store: RedisQueues, redis_options: RedisOptions, steps: Steps, raw: Redis
) -> None:
    """T6"""
    soon_us = steps.clock.wall_us() + 500 * SECOND_US
    steps(append(redis_store, "c", [entry(1), entry(2, expires_us=soon_us), entry(3), entry(4), entry(5)]))
    base = f"{redis_options.prefix}{{c}}"
    raw.delete(f"{base}:2", f"{base}:3", f"{base}:4")

    assert steps(numbers(redis_store, "c", 0, 2)) == [1, 5], "a page is filled up"

    assert raw.zrange(f"{base}:queue", 0, -1, withscores=True)[-1][1] == 5
    assert raw.zcard(f"{base}:queue") == 2
    assert raw.exists(f"{base}:expiring") == 0
    assert steps(redis_store.size("c")).size_bytes == entry(1).owed.size_bytes + entry(5).owed.size_bytes


def test_a_session_that_ends_leaves_no_key(
    redis_store: RedisQueues, redis_options: RedisOptions, steps: Steps, raw: Redis
) -> None:
    """T9"""
    soon_us = steps.clock.wall_us() + 500 * SECOND_US
    steps(append(redis_store, "c{", [entry(number, expires_us=soon_us * (number % 2)) for number in range(1, 1500)]))
    steps(redis_store.read("c{", 0, 10))
    assert len(keys(raw, redis_options)) == 1502

    steps(redis_store.drop(["c{"]))

    assert keys(raw, redis_options) == set()


def test_an_end_that_comes_late_does_not_take_what_came_after_it(
    redis_store: RedisQueues, redis_options: RedisOptions, steps: Steps, raw: Redis
) -> None:
    steps(append(redis_store, "c", entries(1, 2)))
    base = base_key(redis_options.prefix.encode(), "c")

    raw.eval(scripts.DROP.source.decode(), 2, base, base + STATE, b"%020d" % 1)
    assert steps(numbers(redis_store, "c")) == [1, 2]

    raw.eval(scripts.DROP.source.decode(), 2, base, base + STATE, b"%020d" % 2)
    assert keys(raw, redis_options) == set()


def test_a_damaged_message_is_set_aside_and_the_rest_is_read(
    redis_store: RedisQueues, redis_options: RedisOptions, steps: Steps, raw: Redis
) -> None:
    steps(append(redis_store, "c", entries(1, 2, 3)))
    base = f"{redis_options.prefix}{{c}}"
    raw.set(f"{base}:2", b"no message")

    with pytest.raises(PermanentError, match="message 2"):
        steps(redis_store.read("c", 0, 10))

    assert steps(numbers(redis_store, "c")) == [1, 3]
    assert steps(redis_store.size("c")).size_bytes == entry(1).owed.size_bytes + entry(3).owed.size_bytes
    assert raw.hgetall(f"{base}:damaged") == {b"2": b"no message"}
    steps(redis_store.drop(["c"]))
    assert keys(raw, redis_options) == set()


def test_a_missing_script_is_loaded_again(redis_store: RedisQueues, steps: Steps, raw: Redis) -> None:
    """T13"""
    steps(append(redis_store, "c", entries(1)))
    raw.script_flush()

    answers = steps(redis_store.append([Pack(f"c{place}", entries(2), PLENTY) for place in range(5)]))

    assert not [answer for answer in answers if isinstance(answer, Exception)]
    assert steps(numbers(redis_store, "c")) == [1]
    assert steps(numbers(redis_store, "c4")) == [2]


def test_payloads_are_stored_as_the_bytes_they_are(
    redis_store: RedisQueues, redis_options: RedisOptions, steps: Steps, raw: Redis
) -> None:
    """T15"""
    steps(append(redis_store, "c", [entry(1, bytes(range(256)) + b'{"empty":[]}')]))

    value = raw.get(f"{redis_options.prefix}{{c}}:1")

    assert isinstance(value, bytes)
    assert value.endswith(bytes(range(256)) + b'{"empty":[]}')


@pytest.mark.parametrize("own_redis", [{"maxmemory": "3mb", "maxmemory_policy": "noeviction"}], indirect=True)
def test_a_redis_without_memory_takes_a_pack_whole_or_not_at_all(own_redis: RedisServer, steps: Steps) -> None:
    """T2"""
    store = RedisQueues(RedisOptions((own_redis.url,), give_up_s=0.1), steps.clock)
    stored = 0
    while True:
        pack = [entry(stored + place + 1, b"x" * 1000) for place in range(200)]
        (answer,) = steps(store.append([Pack("c", pack, PLENTY)]))
        if isinstance(answer, Exception):
            break
        stored += len(pack)
    assert isinstance(answer, TransientError)
    assert "maxmemory" in str(answer)
    own_redis.ask("CONFIG", "SET", "maxmemory", "0")

    assert steps(store.size("c")).messages == stored
    assert steps(append(store, "c", pack)).serials == list(range(stored + 1, stored + 201))
    steps(store.close())


def test_what_a_client_lost_is_told_though_another_one_was_refused(own_redis: RedisServer, steps: Steps) -> None:
    """T4: Redis has no room for one more queue; in another one, the oldest message makes it."""
    store = RedisQueues(RedisOptions((own_redis.url,), give_up_s=0.1), steps.clock)
    steps(append(store, "full", entries(1, 2, 3)))
    own_redis.ask("CONFIG", "SET", "maxmemory", "1")

    new, full = steps(store.append([Pack("new", entries(4), PLENTY), Pack("full", entries(4), limits(3))]))

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

        answers = steps(store.append([Pack(name, entries(1, 2), PLENTY) for name in ("a", "b", "c")]))

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

    packs = [Pack("a", entries(20_000), PLENTY), Pack("b", entries(20_000), limits(10)), Pack("c", entries(5), PLENTY)]
    answers = steps(redis_store.append(packs))

    found = [(answer.serials, answer.dropped) for answer in answers if isinstance(answer, Appended)]
    assert found == [([12_001], 0), ([12_001], 11_991), ([1], 0)]
    assert raw.info("commandstats")["cmdstat_evalsha"]["calls"] == 3, "one for each that has much to remove"


def test_a_redis_that_does_not_answer_is_reported_and_heals(own_redis: RedisServer, steps: Steps) -> None:
    """T11 T13"""
    store = RedisQueues(RedisOptions((own_redis.url,), timeout_s=0.2, give_up_s=0.5), steps.clock)
    patient = RedisQueues(RedisOptions((own_redis.url,)), steps.clock)
    steps(append(patient, "c", entries(1, 2)))
    own_redis.pause()

    (answer,) = steps(store.append([Pack("c", entries(3), PLENTY)]))
    assert isinstance(answer, TransientError)
    with pytest.raises(TransientError):
        steps(store.read("c", 0, 10))
    own_redis.resume()

    assert steps(append(patient, "c", entries(3, 4))).serials == [3, 4], "3 may have arrived, and is not stored twice"
    assert steps(numbers(patient, "c")) == [1, 2, 3, 4]
    assert steps(insisting(store)) == [1, 2, 3, 4], "no late reply is taken for that of another command"
    steps(store.close())
    steps(patient.close())


async def insisting(store: RedisQueues) -> list[int]:
    """Ask a store that is quick to give up until it answers."""
    while True:
        with suppress(TransientError):
            return await numbers(store, "c")


@pytest.mark.parametrize("own_redis", [{"appendonly": "yes", "appendfsync": "always"}], indirect=True)
def test_a_redis_that_is_killed_keeps_what_it_took(own_redis: RedisServer, steps: Steps) -> None:
    """T13"""
    store = RedisQueues(RedisOptions((own_redis.url,), give_up_s=0.3), steps.clock)
    soon_us = steps.clock.wall_us() + 500 * SECOND_US
    steps(append(store, "c", [entry(1), entry(2, expires_us=soon_us)]))
    steps(store.release("c", [1]))
    own_redis.kill()
    (answer,) = steps(store.append([Pack("c", entries(3), PLENTY)]))
    assert isinstance(answer, TransientError)
    own_redis.start()

    assert steps(append(store, "c", entries(2, 3))).serials == [2, 3]
    found = steps(store.read("c", 0, 10))
    assert [(each.number, each.released, each.expires_us) for each in found] == [
        (1, True, 0),
        (2, False, soon_us),
        (3, False, 0),
    ]
    steps(store.close())


@pytest.fixture
def pair(own_redis: RedisServer) -> Iterator[tuple[RedisServer, RedisServer]]:
    """A master and its copy."""
    own_redis.ask("CONFIG", "SET", "repl-diskless-sync-delay", "0")
    copy = RedisServer(replicaof=f"127.0.0.1 {own_redis.port}")
    try:
        copy.start()
        while "master_link_status:up" not in copy.ask("INFO", "replication"):
            pass
        yield own_redis, copy
    finally:
        copy.close()


def test_with_replicas_a_write_counts_when_they_have_it(pair: tuple[RedisServer, RedisServer], steps: Steps) -> None:
    """T13: also when it is repeated, and so changes nothing."""
    master, copy = pair
    options = RedisOptions((master.url,), replicas=1, replicas_timeout_s=0.1, give_up_s=0.3)
    patient = RedisQueues(RedisOptions((master.url,), replicas=1), steps.clock)
    steps(append(patient, "c", entries(1)))
    store = RedisQueues(options, steps.clock)
    copy.pause()

    for _ in range(2):
        # WAIT is about what its own connection has done, so each try has a new one.
        another = RedisQueues(options, steps.clock)
        (answer,) = steps(another.append([Pack("c", entries(2), PLENTY)]))
        assert isinstance(answer, TransientError)
        assert "0 of 1 copies" in str(answer)
        steps(another.close())
    with pytest.raises(TransientError):
        steps(store.release("c", [1]))
    copy.resume()

    assert steps(append(patient, "c", entries(2))).serials == [2]
    steps(patient.release("c", [1]))
    steps(store.close())
    steps(patient.close())


def test_a_copy_is_not_asked_for_what_it_may_not_have(pair: tuple[RedisServer, RedisServer], steps: Steps) -> None:
    master, copy = pair
    copy.ask("REPLICAOF", "127.0.0.1", "1")
    one = RedisQueues(RedisOptions((master.url,)), steps.clock)
    steps(append(one, "c", entries(1)))

    store = RedisQueues(RedisOptions((copy.url, master.url)), steps.clock)

    assert steps(store.last("c")) == (1, 1)
    assert steps(numbers(store, "c")) == [1]
    steps(one.close())
    steps(store.close())


def test_the_copy_is_used_when_it_has_become_the_master(pair: tuple[RedisServer, RedisServer], steps: Steps) -> None:
    """T13"""
    master, copy = pair
    store = RedisQueues(RedisOptions((master.url, copy.url), replicas=1), steps.clock)
    steps(append(store, "c", entries(1, 2)))
    steps(store.close())
    store = RedisQueues(RedisOptions((copy.url, master.url)), steps.clock)
    assert steps(append(store, "c", entries(3))).serials == [3], "the copy says that it is none"
    sweeping = RedisQueues(RedisOptions((master.url, copy.url)), steps.clock)
    assert steps(sweeping.sweep(steps.clock.wall_us())) == 0
    master.kill()
    copy.ask("REPLICAOF", "NO", "ONE")
    with pytest.raises(TransientError):
        steps(sweeping.sweep(steps.clock.wall_us()))
    assert steps(sweeping.sweep(steps.clock.wall_us())) == 0, "it has looked around"
    steps(sweeping.close())

    assert steps(append(store, "c", entries(2, 3, 4))).serials == [2, 3, 4]
    assert steps(numbers(store, "c")) == [1, 2, 3, 4]
    steps(store.close())


@pytest.mark.parametrize("own_redis", [{"requirepass": "topsecret"}], indirect=True)
def test_users_have_passwords_and_rights(own_redis: RedisServer, steps: Steps) -> None:
    port = own_redis.port
    with Redis(port=port, password="topsecret") as raw:
        raw.execute_command("ACL", "SETUSER", "queues", *RIGHTS.split(" "))
    for login in (":topsecret", "queues:p%40ss"):
        store = RedisQueues(RedisOptions((f"redis://{login}@127.0.0.1:{port}/0",)), steps.clock)
        soon_us = steps.clock.wall_us() + 500 * SECOND_US
        steps(append(store, login, [entry(1), entry(2, expires_us=soon_us)], limits(1)))
        steps(store.release(login, [2]))
        assert steps(numbers(store, login)) == [2]
        steps(store.acknowledge([(login, [2])]))
        assert steps(store.sweep(soon_us)) == 0
        steps(store.drop([login]))
        steps(store.close())

    store = RedisQueues(RedisOptions((f"redis://:wrong@127.0.0.1:{port}/0",), give_up_s=0.1), steps.clock)
    with pytest.raises(TransientError, match="password"):
        steps(append(store, "c", entries(1)))
    steps(store.close())


def test_tls_checks_who_is_there(tmp_path: Path, steps: Steps) -> None:
    need(PROGRAM, PACKAGE)
    authority = Authority(tmp_path)
    files = authority.server_files("redis")
    server = RedisServer(
        tls_cert_file=files["certificate"], tls_key_file=files["key"], tls_ca_cert_file=authority.file,
        tls_auth_clients="no", tls_port=free_port(),
    )  # fmt: skip
    try:
        server.start()
        url = f"rediss://localhost:{server.option('tls_port')}/0"
        store = RedisQueues(RedisOptions((url,), tls_ca=str(authority.file)), steps.clock)
        assert steps(append(store, "c", entries(1))).serials == [1]
        steps(store.close())
        stranger = RedisQueues(RedisOptions((url,), give_up_s=0.1), steps.clock)
        with pytest.raises(TransientError, match="certificate"):
            steps(append(stranger, "c", entries(2)))
        steps(stranger.close())
    finally:
        server.close()
