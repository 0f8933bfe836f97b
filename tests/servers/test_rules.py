"""What every home of queues on a server does, in Redis, in a Redis Cluster (T14) and in PostgreSQL."""

from collections.abc import Callable

import pytest

from holdfast.durable.queues.queue_store import REFUSE, AppendBatch, Appended, QueueStore
from tests.servers.entries import PLENTY, SECOND_US, Steps, append, entries, entry, limits, numbers, payloads

CLIENT_IDS = ["", "{", "}", "{}", "}{", "a{b}c", "%", "%7D", "%25", "ünïcode", "a b\n\t*?[x]", "\x01\x7f", "x" * 2000]
#: Ids behind a mount point have U+0000 in them.
CLIENT_IDS += ["m/\0b", "\\", "\\0", "\0\\\\0"]
U32_MAX_S = 0xFFFF_FFFF


def test_any_client_id_has_a_queue_of_its_own(store: QueueStore, steps: Steps) -> None:
    """T1"""
    packs = [AppendBatch(client_id, [entry(7, client_id.encode())], PLENTY) for client_id in CLIENT_IDS]

    answers = steps(store.append(packs))

    assert [answer.serials for answer in answers if isinstance(answer, Appended)] == [[1]] * len(CLIENT_IDS)
    assert [steps(payloads(store, client_id)) for client_id in CLIENT_IDS] == [[each.encode()] for each in CLIENT_IDS]
    assert sorted(steps(_clients(store))) == sorted(CLIENT_IDS)


async def _clients(store: QueueStore) -> list[str]:
    return [client_id async for client_id in store.clients()]


def test_a_pack_is_kept_in_its_order_and_read_from_any_place(store: QueueStore, steps: Steps) -> None:
    """T2"""
    assert steps(append(store, "c", entries(10, 20, 30))).serials == [1, 2, 3]
    assert steps(append(store, "c", entries(40, 50))).serials == [4, 5]

    assert steps(numbers(store, "c", 0, 2)) == [10, 20]
    assert steps(numbers(store, "c", 2, 2)) == [30, 40]
    assert steps(numbers(store, "c", 4, 2)) == [50]
    assert steps(numbers(store, "c", 0)) == [10, 20, 30, 40, 50]
    assert steps(numbers(store, "nobody")) == []


def test_a_message_comes_back_as_it_was(store: QueueStore, steps: Steps) -> None:
    """T15"""
    properties = b"\x26\x00\x01k\x00\x02v1" + b"\x01\x01" + b"\x03\x00\x04json" + b"\x26\x00\x01k\x00\x02v2"
    given = [
        entry(1, bytes(range(256)), qos=2, properties=properties),
        entry(2, b'{"empty": [], "deep": {}}', topic="straße/°C".encode()),
        entry(3, b""),
    ]

    steps(append(store, "c", given))

    found = steps(store.read("c", 0, 10))
    assert [each.message for each in found] == [each.message for each in given]
    assert [(each.owed.qos, each.owed.identifiers) for each in found] == [(2, (7,)), (1, ()), (1, (7,))]
    assert [(each.owed.serial, each.number, each.released) for each in found] == [(n, n, False) for n in (1, 2, 3)]
    assert steps(store.size("c")).size_bytes == sum(each.owed.size_bytes for each in given)


def test_what_was_given_before_is_not_stored_again(store: QueueStore, steps: Steps) -> None:
    """T13"""
    pack = entries(5, 6, 7)
    steps(append(store, "c", pack))
    steps(store.acknowledge([("c", [2])]))

    again = steps(append(store, "c", [*pack, entry(8)]))

    assert again.serials == [1, 0, 3, 4], "6 is not there any more"
    assert steps(numbers(store, "c")) == [5, 7, 8]
    assert steps(store.last("c")) == (4, 8)
    assert steps(append(store, "c", entries(6, 7))).serials == [0, 3]


def test_serials_go_on_when_a_queue_was_emptied(open_store: Callable[[], QueueStore], steps: Steps) -> None:
    store = open_store()
    steps(append(store, "c", entries(1, 2)))
    steps(store.acknowledge([("c", [1, 2])]))
    steps(store.close())

    store = open_store()

    assert steps(store.size("c")).messages == 0
    assert steps(append(store, "c", entries(3))).serials == [3]
    assert steps(store.last("c")) == (3, 3)


def test_expiry_is_the_messages_own_or_the_queues(store: QueueStore, steps: Steps) -> None:
    """T4 T10"""
    now_us = steps.clock.wall_us()
    given = [
        entry(1, expires_us=now_us + 10 * SECOND_US),
        entry(2),
        entry(3, expires_us=now_us + U32_MAX_S * SECOND_US),
        entry(4, expires_us=now_us + 1),
    ]
    steps(append(store, "c", given, limits(10, ttl_s=20)))
    steps.clock.advance(1)
    assert steps(numbers(store, "c")) == [1, 2, 3]
    steps.clock.advance(10 * SECOND_US)
    assert steps(numbers(store, "c")) == [2, 3]
    steps.clock.advance(10 * SECOND_US)
    assert steps(numbers(store, "c")) == [3]
    assert steps(store.size("c")).messages == 1


def test_a_message_that_has_expired_or_is_none_does_not_spoil_its_pack(store: QueueStore, steps: Steps) -> None:
    """T4"""
    now_us = steps.clock.wall_us()
    too_long = entry(3, topic=b"t" * 70_000)
    not_text = entry(4, topic=b"\xff\xfe", expires_us=now_us - 5)
    pack = [entry(1), entry(2, expires_us=now_us), too_long, not_text, entry(5)]

    serials = steps(append(store, "c", pack)).serials

    assert (serials[0], serials[1], serials[3]) == (1, 0, 0)
    found = steps(numbers(store, "c"))
    assert [number for number in found if number != 3] == [1, 5]
    assert steps(store.last("c"))[1] == 5


def test_over_the_limit_the_oldest_go(store: QueueStore, steps: Steps) -> None:
    """T5"""
    steps(append(store, "c", entries(1, 2, 3), limits(3)))

    answer = steps(append(store, "c", entries(4, 5), limits(3)))

    assert (answer.serials, answer.dropped, answer.refused) == ([4, 5], 2, 0)
    assert steps(numbers(store, "c")) == [3, 4, 5]


def test_bytes_are_a_limit_too(store: QueueStore, steps: Steps) -> None:
    """T5"""
    given = [entry(number, b"x" * 100) for number in range(1, 6)]
    each_bytes = given[0].owed.size_bytes

    answer = steps(append(store, "c", given[:2], limits(100, 3 * each_bytes)))
    assert answer.dropped == 0
    answer = steps(append(store, "c", given[2:], limits(100, 3 * each_bytes)))

    assert answer.dropped == 2
    assert steps(numbers(store, "c")) == [3, 4, 5]
    assert steps(append(store, "c", [entry(6, b"x" * 1000)], limits(100, each_bytes))).serials == [0]


def test_an_oversized_pack_keeps_its_newest(store: QueueStore, steps: Steps) -> None:
    """T5"""
    steps(append(store, "c", entries(1), limits(2)))

    answer = steps(append(store, "c", entries(2, 3, 4, 5), limits(2)))

    assert (answer.serials, answer.dropped) == ([0, 0, 4, 5], 3)
    assert steps(numbers(store, "c")) == [4, 5]


def test_what_has_expired_does_not_count_toward_the_limit(store: QueueStore, steps: Steps) -> None:
    """T5"""
    soon_us = steps.clock.wall_us() + SECOND_US
    steps(append(store, "c", [entry(1), entry(2, expires_us=soon_us), entry(3, expires_us=soon_us)], limits(3)))
    steps.clock.advance(SECOND_US)

    answer = steps(append(store, "c", entries(4, 5), limits(3)))

    assert (answer.serials, answer.dropped) == ([4, 5], 0)
    assert steps(numbers(store, "c")) == [1, 4, 5]


def test_a_limit_of_nothing_stores_nothing(store: QueueStore, steps: Steps) -> None:
    """T5"""
    assert steps(append(store, "c", entries(1, 2), limits(0))).serials == [0, 0]
    assert steps(store.size("c")).messages == 0
    assert steps(append(store, "c", entries(1, 2), PLENTY)).serials == [0, 0], "they were given before"


def test_what_is_in_flight_neither_counts_nor_goes(store: QueueStore, steps: Steps) -> None:
    """T12"""
    steps(append(store, "c", entries(1, 2, 3), limits(3)))
    assert steps(numbers(store, "c", 0, 2)) == [1, 2]

    assert steps(append(store, "c", entries(4, 5), limits(3))).dropped == 0
    assert steps(append(store, "c", entries(6), limits(3))).dropped == 1

    assert steps(numbers(store, "c")) == [1, 2, 4, 5, 6]
    assert steps(store.size("c")).messages == 5


def test_a_slow_client_loses_nothing_within_its_limits(store: QueueStore, steps: Steps) -> None:
    """T12"""
    got: list[int] = []
    for number in range(1, 200, 10):
        answer = steps(append(store, "c", entries(*range(number, number + 10)), limits(200)))
        assert answer.dropped == 0
        page = steps(store.read("c", len(got), 5))
        got += [each.number for each in page]
        steps(store.acknowledge([("c", [each.owed.serial for each in page])]))
    got += steps(numbers(store, "c", len(got)))

    assert got == list(range(1, 201))


def test_a_full_queue_refuses_until_it_was_read_to_its_end(store: QueueStore, steps: Steps) -> None:
    refusing = limits(2, on_full=REFUSE)
    answer = steps(append(store, "c", entries(1, 2, 3), refusing))
    assert (answer.serials, answer.dropped, answer.refused) == ([1, 2, 0], 0, 1)

    assert steps(numbers(store, "c", 0, 1)) == [1]
    assert steps(append(store, "c", entries(4), refusing)).refused == 1
    assert steps(numbers(store, "c", 1)) == [2]

    answer = steps(append(store, "c", entries(5), refusing))
    assert (answer.serials, answer.refused) == ([3], 0)


def test_acknowledging_what_is_not_there_is_harmless(store: QueueStore, steps: Steps) -> None:
    """T7"""
    steps(append(store, "c", entries(1, 2, 3)))

    steps(store.acknowledge([("c", [2, 2, 99]), ("nobody", [1]), ("c2", [])]))
    steps(store.acknowledge([("c", [2])]))
    steps(store.release("c", [99]))
    steps(store.release("nobody", [1]))

    assert steps(numbers(store, "c")) == [1, 3]
    assert steps(store.size("c")).messages == 2
    assert steps(_clients(store)) == ["c"]


def test_unread_messages_that_are_acknowledged_make_room(store: QueueStore, steps: Steps) -> None:
    steps(append(store, "c", entries(1, 2, 3), limits(3)))
    steps(store.acknowledge([("c", [2])]))

    assert steps(append(store, "c", entries(4), limits(3))).dropped == 0
    assert steps(numbers(store, "c")) == [1, 3, 4]


def test_a_released_message_stays_in_its_place(open_store: Callable[[], QueueStore], steps: Steps) -> None:
    """T8"""
    store = open_store()
    soon_us = steps.clock.wall_us() + 5 * SECOND_US
    steps(append(store, "c", [entry(1, qos=2), entry(2, qos=2, expires_us=soon_us), entry(3, qos=2)]))
    steps(store.release("c", [2]))

    found = steps(open_store().read("c", 0, 10))

    assert [(each.number, each.released, each.expires_us) for each in found] == [
        (1, False, 0),
        (2, True, soon_us),
        (3, False, 0),
    ]
    steps(store.acknowledge([("c", [2])]))
    assert steps(numbers(store, "c")) == [1, 3]


def test_ending_sessions_removes_everything_of_them(store: QueueStore, steps: Steps) -> None:
    """T9"""
    steps(append(store, "gone", entries(*range(1, 2500))))
    steps(append(store, "stays", entries(1)))

    steps(store.drop(["gone", "nobody"]))

    assert steps(_clients(store)) == ["stays"]
    assert steps(store.last("gone")) == (0, 0)
    assert steps(append(store, "gone", entries(2))).serials == [1]


def test_sweeping_removes_what_has_expired(store: QueueStore, steps: Steps) -> None:
    """P2"""
    soon_us = steps.clock.wall_us() + SECOND_US
    for client_id in ("a", "b", "c"):
        steps(append(store, client_id, [entry(1, expires_us=soon_us), entry(2)], limits(2)))
    assert steps(store.sweep(steps.clock.wall_us())) == 0
    steps.clock.advance(SECOND_US)

    assert steps(store.sweep(steps.clock.wall_us())) == 3

    assert steps(store.sweep(steps.clock.wall_us())) == 0
    assert steps(append(store, "a", entries(3), limits(2))).dropped == 0
    assert steps(numbers(store, "a")) == [2, 3]


def test_many_packs_are_appended_in_one_call(store: QueueStore, steps: Steps) -> None:
    packs = [AppendBatch(f"client {place}", entries(place + 1, 5000), PLENTY) for place in range(2500)]

    answers = steps(store.append(packs))

    assert all(isinstance(answer, Appended) and answer.serials == [1, 2] for answer in answers)
    assert steps(numbers(store, "client 2499")) == [2500, 5000]
    steps(store.acknowledge([(pack.client_id, [1]) for pack in packs]))
    assert steps(numbers(store, "client 0")) == [5000]


@pytest.mark.parametrize("places", [[3, 1, 2], [1, 3]])
def test_acknowledgements_may_come_out_of_order(store: QueueStore, steps: Steps, places: list[int]) -> None:
    steps(append(store, "c", entries(1, 2, 3)))

    steps(store.acknowledge([("c", places)]))

    assert steps(numbers(store, "c")) == [number for number in (1, 2, 3) if number not in places]
