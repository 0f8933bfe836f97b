"""Client queues in one Redis: its keys, its scripts, and what its loss does."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from redis import Redis
from redis.crc import key_slot

from bench.ports import free_port
from bench.queues.redis_server import PACKAGE, PROGRAM, RedisServer
from holdfast.durable.queues.queue_store import AppendBatch
from holdfast.model.errors import MisuseError, PermanentError, SettingsError, TransientError
from holdfast.storage.redis import scripts
from holdfast.storage.redis.keys import STATE, base_key, decode_tag, encode_tag, slot_of_key
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


def keys(raw: Redis, options: RedisOptions) -> set[bytes]:
    return {key for key in raw.scan_iter("*") if key.startswith(options.prefix.encode())}


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


def test_a_pack_that_cannot_be_sent_is_told_by_its_own_error_and_those_before_it_are_kept(
    redis_store: RedisQueues, steps: Steps
) -> None:
    packs = [AppendBatch("a", entries(*range(1, 601)), PLENTY), AppendBatch("b", [entry(0)], PLENTY)]

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

    answers = steps(redis_store.append([AppendBatch(f"c{place}", entries(2), PLENTY) for place in range(5)]))

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
        (answer,) = steps(store.append([AppendBatch("c", pack, PLENTY)]))
        if isinstance(answer, Exception):
            break
        stored += len(pack)
    assert isinstance(answer, TransientError)
    assert "maxmemory" in str(answer)
    own_redis.ask("CONFIG", "SET", "maxmemory", "0")

    assert steps(store.size("c")).messages == stored
    assert steps(append(store, "c", pack)).serials == list(range(stored + 1, stored + 201))
    steps(store.close())


def test_a_redis_that_does_not_answer_is_reported_and_heals(own_redis: RedisServer, steps: Steps) -> None:
    """T11 T13"""
    store = RedisQueues(RedisOptions((own_redis.url,), timeout_s=0.2, give_up_s=0.5), steps.clock)
    patient = RedisQueues(RedisOptions((own_redis.url,)), steps.clock)
    steps(append(patient, "c", entries(1, 2)))
    own_redis.pause()

    (answer,) = steps(store.append([AppendBatch("c", entries(3), PLENTY)]))
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
    (answer,) = steps(store.append([AppendBatch("c", entries(3), PLENTY)]))
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
        (answer,) = steps(another.append([AppendBatch("c", entries(2), PLENTY)]))
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
