"""Many wrong passwords at once: a right one is served, whatever they cost, and what waits is bounded."""

import asyncio
from pathlib import Path

import pytest

from holdfast.broker.access import passwords
from holdfast.broker.access.authenticator import MAX_OF_ADDRESS, Allowed, Authenticator, Refused, Verdict
from holdfast.broker.access.check_queue import CheckQueue
from holdfast.broker.access.logins import MAX_REMEMBERED, Logins, network_of
from holdfast.broker.connections.origin import Origin
from holdfast.broker.policy import Limits, Policy
from holdfast.model.clock import ManualClock
from holdfast.model.reasons import BAD_USER_NAME_OR_PASSWORD, CONNECTION_RATE_EXCEEDED, SERVER_BUSY
from tests.unit.broker.access.password_hashes import DelayedHash, loop_turns, pbkdf2

HERE = "192.0.2.1"
THERE = "192.0.2.2"


def origin(address: str) -> Origin:
    return Origin("main", address, 4711, "tcp", allow_anonymous=False)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "passwd"
    made.write_text(f"alice:{pbkdf2(b'secret')}\nbob:{pbkdf2(b'hunter2')}\n", encoding="utf-8")
    return made


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> DelayedHash:
    made = DelayedHash()
    monkeypatch.setattr(passwords, "parse_hash", lambda text: made)
    return made


class Door:
    """An authenticator whose checks a test holds back."""

    def __init__(self, path: Path, limits: Limits | None = None, **options: int) -> None:
        self.clock = ManualClock()
        policy = Policy(limits=limits or Limits())
        self.authenticator = Authenticator(path, policy=policy, clock=self.clock, **options)  # type: ignore[arg-type]
        self.clients: list[asyncio.Task[Verdict]] = []

    def knock(self, address: str, user: str, password: bytes) -> "asyncio.Task[Verdict]":
        client = asyncio.ensure_future(self.authenticator.authenticate(origin(address), "c", user, password))
        self.clients.append(client)
        return client

    def log_in(self, user: str, password: bytes, address: str = HERE) -> Verdict:
        return asyncio.run(self.authenticator.authenticate(origin(address), "c", user, password))


def reason(verdict: Verdict) -> int:
    return verdict.reason if isinstance(verdict, Refused) else 0


def test_a_right_password_is_checked_after_a_few_of_four_hundred_wrong_ones(path: Path, held: DelayedHash) -> None:
    door = Door(path, max_hashings=1)

    async def storm() -> Verdict:
        for number in range(400):
            door.knock(HERE, "alice", b"wrong %d" % number)
        await loop_turns()
        right = door.knock(HERE, "bob", b"right")
        await loop_turns()
        held.let_go.set()
        await asyncio.gather(*door.clients)
        return right.result()

    assert asyncio.run(storm()) == Allowed("bob")
    assert held.checked.index(b"right") <= 2, "one was being checked, one more was its turn"
    assert held.started <= 8, "the rest of the storm is held back"
    reasons = [reason(client.result()) for client in door.clients[:400]]
    assert set(reasons) == {BAD_USER_NAME_OR_PASSWORD, CONNECTION_RATE_EXCEEDED, SERVER_BUSY}


def test_wrong_names_of_one_address_do_not_keep_another_address_waiting(path: Path, held: DelayedHash) -> None:
    door = Door(path, max_hashings=1)

    async def storm() -> Verdict:
        for number in range(400):
            door.knock(HERE, f"name {number}", b"wrong")
        await loop_turns()
        right = door.knock(THERE, "bob", b"right")
        await loop_turns()
        held.let_go.set()
        await asyncio.gather(*door.clients)
        return right.result()

    assert asyncio.run(storm()) == Allowed("bob")
    assert held.checked.index(b"right") <= 2
    assert held.started <= MAX_OF_ADDRESS + 2, "an address has room for so many, and one is checked at once"


def test_a_right_password_waits_for_a_bounded_number_of_wrong_names_of_its_own_address(
    path: Path, held: DelayedHash
) -> None:
    door = Door(path, max_hashings=1)
    held.let_go.set()
    for number in range(51):
        door.log_in(f"earlier {number}", b"wrong")
    assert reason(door.log_in("bob", b"right")) == CONNECTION_RATE_EXCEEDED, "the address is held back for a second"
    door.clock.advance(1_000_000)
    held.let_go.clear()
    held.checked.clear()

    async def storm() -> Verdict:
        for number in range(MAX_OF_ADDRESS):
            door.knock(HERE, f"name {number}", b"wrong")
        await loop_turns()
        right = door.knock(HERE, "bob", b"right")
        await loop_turns()
        held.let_go.set()
        await asyncio.gather(*door.clients)
        return right.result()

    assert asyncio.run(storm()) == Allowed("bob"), "though its address fails all the time while it waits"
    assert held.checked.index(b"right") == MAX_OF_ADDRESS


def test_one_address_does_not_fill_the_queue() -> None:
    async def fill() -> None:
        queue = CheckQueue(1, 8, 2)
        assert await queue.enter("a", "x")
        waiting = [asyncio.ensure_future(queue.enter("a", "x")) for _client in range(2)]
        await loop_turns()
        assert not await queue.enter("a", "x")
        other = asyncio.ensure_future(queue.enter("a", "y"))  # instead of the newest of x
        await loop_turns()
        assert [task.done() for task in (*waiting, other)] == [False, True, False]
        for _place in range(3):
            queue.leave()
        assert await waiting[0]
        assert await other
        assert not await waiting[1]

    asyncio.run(fill())


def test_a_login_that_was_right_lately_waits_for_nobody(path: Path, held: DelayedHash) -> None:
    door = Door(path, max_hashings=1)
    held.let_go.set()
    assert door.log_in("alice", b"right") == Allowed("alice")
    held.let_go.clear()

    async def storm() -> Verdict:
        for number in range(400):
            door.knock(HERE, "alice", b"wrong %d" % number)
        await loop_turns()
        verdict = await door.knock(HERE, "alice", b"right")  # though no check has come to its end
        held.let_go.set()
        await asyncio.gather(*door.clients)
        return verdict

    assert asyncio.run(storm()) == Allowed("alice")


def test_a_remembered_login_is_checked_again_after_its_time_and_after_a_reload(path: Path, held: DelayedHash) -> None:
    door = Door(path, Limits(login_cache_s=60))
    held.let_go.set()
    for checks, seconds in ((1, 59), (1, 1), (2, 0)):
        assert door.log_in("alice", b"right") == Allowed("alice")
        assert held.started == checks
        door.clock.advance(seconds * 1_000_000)
    door.authenticator.reload()
    assert door.log_in("alice", b"right") == Allowed("alice")
    assert held.started == 3


def test_a_check_that_began_before_a_reload_is_not_remembered(path: Path, held: DelayedHash) -> None:
    door = Door(path)

    async def change() -> None:
        client = door.knock(HERE, "alice", b"right")
        assert await asyncio.to_thread(held.began.acquire, timeout=60)
        door.authenticator.reload()
        held.let_go.set()
        await client

    asyncio.run(change())
    door.log_in("alice", b"right")
    assert held.started == 2


def test_without_a_cache_every_login_is_checked(path: Path, held: DelayedHash) -> None:
    door = Door(path, Limits(login_cache_s=0))
    held.let_go.set()
    for _login in range(3):
        door.log_in("alice", b"right")
    assert held.started == 3


def test_a_device_that_repeats_one_wrong_password_holds_nobody_back(path: Path, held: DelayedHash) -> None:
    door = Door(path)
    held.let_go.set()
    for _attempt in range(100):
        assert reason(door.log_in("alice", b"outdated")) == BAD_USER_NAME_OR_PASSWORD
    assert held.started == 1
    assert door.log_in("alice", b"right") == Allowed("alice")


def test_guesses_are_held_back_for_longer_and_longer_and_a_right_one_ends_that(path: Path, held: DelayedHash) -> None:
    door = Door(path, Limits(login_failures=2, login_backoff_s=4))
    held.let_go.set()
    guesses = iter(b"wrong %d" % number for number in range(100))
    assert [reason(door.log_in("alice", next(guesses))) for _guess in range(4)] == [
        BAD_USER_NAME_OR_PASSWORD,
        BAD_USER_NAME_OR_PASSWORD,
        BAD_USER_NAME_OR_PASSWORD,
        CONNECTION_RATE_EXCEEDED,
    ]
    for pause_s in (1, 2, 4, 4):
        door.clock.advance(pause_s * 1_000_000 - 1)
        refused = door.log_in("alice", next(guesses))
        assert reason(refused) == CONNECTION_RATE_EXCEEDED
        assert isinstance(refused, Refused)
        assert refused.detail.endswith("try again in 1 s")
        door.clock.advance(1)
        assert reason(door.log_in("alice", next(guesses))) == BAD_USER_NAME_OR_PASSWORD
    assert reason(door.log_in("alice", b"wrong", THERE)) == BAD_USER_NAME_OR_PASSWORD, "another address is free"
    assert reason(door.log_in("bob", b"wrong")) == BAD_USER_NAME_OR_PASSWORD, "another name as well"
    door.clock.advance(4_000_000)
    assert door.log_in("alice", b"right") == Allowed("alice")
    assert reason(door.log_in("alice", next(guesses))) == BAD_USER_NAME_OR_PASSWORD


def test_a_client_that_has_gone_is_not_checked(path: Path, held: DelayedHash) -> None:
    authenticator = Authenticator(path, max_hashings=1)

    async def leave() -> list[Verdict]:
        first = asyncio.ensure_future(authenticator.authenticate(origin(HERE), "1", "alice", b"right"))
        assert await asyncio.to_thread(held.began.acquire, timeout=60)
        second = asyncio.ensure_future(
            authenticator.authenticate(origin(HERE), "2", "bob", b"right bob", gone=lambda: True)
        )
        third = asyncio.ensure_future(authenticator.authenticate(origin(HERE), "3", "alice", b"wrong"))
        await loop_turns()
        held.let_go.set()
        return list(await asyncio.gather(first, second, third))

    verdicts = asyncio.run(leave())
    assert [reason(verdict) for verdict in verdicts] == [0, SERVER_BUSY, BAD_USER_NAME_OR_PASSWORD]
    assert held.started == 2


def test_what_waits_is_bounded_and_shared_out_by_address_and_name() -> None:
    async def fill() -> None:
        queue = CheckQueue(1, 4, 4)
        assert await queue.enter("running", "x")
        tasks = {
            key: asyncio.ensure_future(queue.enter(*key.split("-")[:2]))
            for key in ("a-alice-1", "a-alice-2", "a-alice-3", "a-bob-1")
        }
        await loop_turns()
        assert len(queue) == 4
        tasks["b-alice-1"] = asyncio.ensure_future(queue.enter("b", "alice"))  # instead of a-alice-3
        tasks["a-carol-1"] = asyncio.ensure_future(queue.enter("a", "carol"))  # instead of a-alice-2
        tasks["a-dave-1"] = asyncio.ensure_future(queue.enter("a", "dave"))  # every name of its address has one
        await loop_turns()
        turned_away = [key for key, task in tasks.items() if task.done()]
        assert turned_away == ["a-alice-2", "a-alice-3", "a-dave-1"]
        order = []
        for _turn in range(4):
            queue.leave()
            await loop_turns()
            order += [key for key, task in tasks.items() if task.done() and key not in turned_away and key not in order]
        assert order == ["a-alice-1", "b-alice-1", "a-bob-1", "a-carol-1"]
        assert all(tasks[key].result() for key in order)
        queue.leave()
        assert await queue.enter("c", "x")

    asyncio.run(fill())


def test_a_client_that_is_cancelled_while_it_waits_gives_its_place_to_the_next() -> None:
    async def cancel() -> None:
        queue = CheckQueue(1, 4, 4)
        assert await queue.enter("a", "x")
        first, second, third = (asyncio.ensure_future(queue.enter("a", "x")) for _client in range(3))
        await loop_turns()
        first.cancel()
        queue.leave()  # before the cancelled one knows
        second.cancel()  # it was given the place
        await loop_turns()
        assert await third
        assert len(queue) == 0

    asyncio.run(cancel())


def test_what_is_remembered_of_logins_is_bounded() -> None:
    clock = ManualClock()
    logins = Logins(Policy(), clock)
    logins.checked(HERE, "alice", b"right", right=True)
    for number in range(MAX_REMEMBERED + 10):
        logins.checked(f"192.0.{number}", str(number), b"wrong", right=False)
    assert logins.remembered("alice", b"right") is True, "wrong ones push out no right one"
    assert logins.remembered("0", b"wrong") is None
    assert len(logins._failures) <= MAX_REMEMBERED


def test_addresses_of_one_ipv6_network_count_as_one() -> None:
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff:2") == "2001:db8::/64"
    assert network_of("2001:db8:0:1::1") != network_of("2001:db8::1")
    assert network_of("192.0.2.1") == "192.0.2.1"
    assert network_of("fe80::1%eth0") == "fe80::/64"
    assert network_of("not:an:address") == "not:an:address"
