"""The verdict on a CONNECT: who comes in as whom, what a refusal says, and what a storm of checks may cost."""

import asyncio
from pathlib import Path

import pytest

from holdfast.broker.access import passwords
from holdfast.broker.access.authenticator import Allowed, Authenticator, PasswordCheck, Refused, Verdict
from holdfast.broker.connections.origin import Origin
from holdfast.exchange.access import ClientAccess
from holdfast.model.errors import MisuseError, SettingsError, TransientError
from holdfast.model.reasons import BAD_USER_NAME_OR_PASSWORD, NOT_AUTHORIZED, SERVER_BUSY
from tests.unit.broker.access.password_hashes import DelayedHash, argon2id, loop_turns, pbkdf2

STRICT = Origin("main", "192.0.2.1", 4711, "tcp", allow_anonymous=False)
OPEN = Origin("local", "127.0.0.1", 4711, "tcp", allow_anonymous=True)
CERTIFIED = Origin("secure", "192.0.2.1", 4711, "tls", tls_subject="press-7", allow_anonymous=False)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "passwd"
    made.write_text(f"alice:{pbkdf2(b'secret')}\nbob:{argon2id(b'hunter2')}\n", encoding="utf-8")
    return made


def verdict(
    authenticator: Authenticator, origin: Origin, user_name: str | None = None, password: bytes | None = None
) -> Verdict:
    return asyncio.run(authenticator.authenticate(origin, "client-1", user_name, password))


def rights(authenticator: Authenticator, user: str | None) -> ClientAccess:
    access = authenticator.access_for("c", user)
    assert access is not None
    return access


def test_the_right_password_lets_a_user_in_under_its_name(path: Path) -> None:
    authenticator = Authenticator(path)
    assert verdict(authenticator, STRICT, "alice", b"secret") == Allowed("alice")
    assert verdict(authenticator, OPEN, "bob", b"hunter2") == Allowed("bob")


@pytest.mark.parametrize("origin", [STRICT, OPEN])
def test_an_unknown_user_and_a_wrong_password_are_refused_in_the_same_words(path: Path, origin: Origin) -> None:
    authenticator = Authenticator(path)
    details = []
    for user in ("alice", "bob", "carol"):
        refused = verdict(authenticator, origin, user, b"guess")
        assert isinstance(refused, Refused)
        assert refused.reason == BAD_USER_NAME_OR_PASSWORD
        assert "client-1" in refused.detail
        details.append(refused.detail.replace(user, "<user>"))
    assert len(set(details)) == 1


def test_a_user_without_a_password_is_refused_without_hashing(path: Path) -> None:
    refused = Authenticator(path).decide_quickly(OPEN, "alice", None)
    assert isinstance(refused, Refused)
    assert refused.reason == BAD_USER_NAME_OR_PASSWORD


@pytest.mark.parametrize("with_file", [True, False])
def test_clients_without_a_user_name_come_in_only_where_that_is_allowed(path: Path, with_file: bool) -> None:
    authenticator = Authenticator(path if with_file else None)
    assert verdict(authenticator, OPEN) == Allowed(None)
    assert verdict(authenticator, OPEN, None, b"token") == Allowed(None)
    refused = verdict(authenticator, STRICT)
    assert refused == Refused(NOT_AUTHORIZED, "listener 'main' takes no client without a user name")


def test_a_user_name_that_nobody_checked_is_not_believed() -> None:
    authenticator = Authenticator()
    assert verdict(authenticator, OPEN, "alice", b"anything") == Allowed(None)
    refused = verdict(authenticator, STRICT, "alice", b"anything")
    assert refused == Refused(NOT_AUTHORIZED, "this broker has no password file to check the user name with")


@pytest.mark.parametrize("with_file", [True, False])
def test_a_verified_certificate_is_the_user_whatever_the_client_claims(path: Path, with_file: bool) -> None:
    authenticator = Authenticator(path if with_file else None)
    assert verdict(authenticator, CERTIFIED) == Allowed("press-7")
    assert verdict(authenticator, CERTIFIED, "alice", b"guess") == Allowed("press-7")


def test_a_certificate_that_names_nobody_is_refused() -> None:
    nameless = Origin("secure", "192.0.2.1", 4711, "tls", tls_subject="", allow_anonymous=True)
    refused = verdict(Authenticator(), nameless, "alice", b"x")
    assert isinstance(refused, Refused)
    assert refused.reason == NOT_AUTHORIZED


def test_no_verdict_and_no_check_shows_a_password(path: Path) -> None:
    authenticator = Authenticator(path)
    outcomes = [
        authenticator.decide_quickly(STRICT, "alice", b"my-guess"),
        authenticator.decide_quickly(STRICT, None, b"my-guess"),
        Authenticator().decide_quickly(STRICT, "alice", b"my-guess"),
        verdict(authenticator, STRICT, "alice", b"my-guess"),
        verdict(authenticator, STRICT, "carol", b"my-guess"),
    ]
    assert isinstance(outcomes[0], PasswordCheck)
    assert not any("my-guess" in f"{outcome!r} {outcome}" for outcome in outcomes)


def test_a_refusal_is_short_and_one_line_whatever_the_names_are(path: Path) -> None:
    refused = asyncio.run(Authenticator(path).authenticate(STRICT, "c\n" * 30_000, "u\r\n" * 20_000, b"x"))
    assert isinstance(refused, Refused)
    assert len(refused.detail) < 500
    assert refused.detail.isprintable()


def test_rights_come_from_the_access_file_and_without_one_all_is_allowed(tmp_path: Path) -> None:
    assert Authenticator().access_for("c", "alice") is None
    acl = tmp_path / "acl"
    acl.write_text("user alice\ntopic write a\n", encoding="utf-8")
    ruled = Authenticator(access_file=acl)
    assert rights(ruled, "alice").may_publish(b"a")
    assert not rights(ruled, None).may_publish(b"a")


def test_a_reload_takes_both_files_as_they_are_now(path: Path, tmp_path: Path) -> None:
    acl = tmp_path / "acl"
    acl.write_text("user alice\ntopic write a\n", encoding="utf-8")
    authenticator = Authenticator(path, acl)
    before = rights(authenticator, "alice")
    path.write_text(f"alice:{pbkdf2(b'other')}\n", encoding="utf-8")
    acl.write_text("user alice\ntopic write b\n", encoding="utf-8")
    authenticator.reload()
    assert isinstance(verdict(authenticator, STRICT, "alice", b"secret"), Refused)
    assert verdict(authenticator, STRICT, "alice", b"other") == Allowed("alice")
    assert rights(authenticator, "alice").may_publish(b"b")
    assert before.may_publish(b"a")


@pytest.mark.parametrize("broken", ["passwd", "acl"])
def test_a_bad_file_leaves_both_as_they_were_and_is_told(path: Path, tmp_path: Path, broken: str) -> None:
    acl = tmp_path / "acl"
    acl.write_text("user alice\ntopic write a\n", encoding="utf-8")
    authenticator = Authenticator(path, acl)
    path.write_text(f"carol:{pbkdf2(b'other')}\n", encoding="utf-8")
    acl.write_text("user carol\ntopic write b\n", encoding="utf-8")
    (tmp_path / broken).write_text("nonsense\n", encoding="utf-8")
    with pytest.raises(SettingsError, match=f"{broken}:1: "):
        authenticator.reload()
    assert verdict(authenticator, STRICT, "alice", b"secret") == Allowed("alice")
    assert isinstance(verdict(authenticator, STRICT, "carol", b"other"), Refused)
    assert rights(authenticator, "alice").may_publish(b"a")
    assert not rights(authenticator, "carol").may_publish(b"b")


def test_a_bad_file_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="does not exist"):
        Authenticator(tmp_path / "missing")


def test_a_removed_user_is_no_longer_welcome_after_a_reload(path: Path) -> None:
    authenticator = Authenticator(path)
    assert authenticator.may_stay(STRICT, "bob")
    path.write_text(f"alice:{pbkdf2(b'secret')}\n", encoding="utf-8")
    authenticator.reload()
    assert not authenticator.may_stay(STRICT, "bob")
    assert authenticator.may_stay(STRICT, "alice")
    assert authenticator.may_stay(CERTIFIED, "press-7")
    assert (authenticator.may_stay(OPEN, None), authenticator.may_stay(STRICT, None)) == (True, False)
    assert not Authenticator().may_stay(OPEN, "bob")


@pytest.fixture
def gauge(monkeypatch: pytest.MonkeyPatch) -> DelayedHash:
    made = DelayedHash()
    monkeypatch.setattr(passwords, "parse_hash", lambda text: made)
    return made


def test_no_more_passwords_are_checked_at_a_time_than_allowed(path: Path, gauge: DelayedHash) -> None:
    authenticator = Authenticator(path, max_hashings=2)

    async def storm() -> list[Verdict]:
        async with asyncio.TaskGroup() as group:
            clients = [
                group.create_task(authenticator.authenticate(STRICT, str(number), "alice", password))
                for number, password in enumerate(
                    b"%s %d" % (word, i) for i in range(4) for word in (b"right", b"wrong")
                )
            ]
            for _check in range(2):
                assert await asyncio.to_thread(gauge.began.acquire, timeout=60)
            await loop_turns()
            assert gauge.started == 2
            gauge.let_go.set()
        return [client.result() for client in clients]

    verdicts = asyncio.run(storm())
    assert [isinstance(found, Allowed) for found in verdicts] == [True, False] * 4
    assert (gauge.started, gauge.peak) == (8, 2)


def test_a_client_that_goes_away_keeps_its_place_until_its_check_ends(path: Path, gauge: DelayedHash) -> None:
    authenticator = Authenticator(path, max_hashings=1)

    async def leave() -> Verdict:
        async with asyncio.TaskGroup() as group:
            leaving = group.create_task(authenticator.authenticate(STRICT, "1", "alice", b"right"))
            assert await asyncio.to_thread(gauge.began.acquire, timeout=60)
            waiting = group.create_task(authenticator.authenticate(STRICT, "2", "alice", b"right"))
            given_up = group.create_task(authenticator.authenticate(STRICT, "3", "alice", b"right"))
            await loop_turns()
            leaving.cancel()
            given_up.cancel()
            await loop_turns()
            assert leaving.cancelled()
            assert gauge.started == 1
            gauge.let_go.set()
        return waiting.result()

    assert asyncio.run(leave()) == Allowed("alice")
    assert (gauge.started, gauge.peak) == (2, 1)


def test_a_check_that_lacks_memory_refuses_for_now_and_gives_its_place_back(
    path: Path, gauge: DelayedHash, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(password: bytes) -> bool:
        raise TransientError("a password could not be checked: no memory")

    authenticator = Authenticator(path, max_hashings=1)
    monkeypatch.setattr(gauge, "verify", fail)
    for _attempt in range(3):
        refused = verdict(authenticator, STRICT, "alice", b"right")
        assert refused == Refused(SERVER_BUSY, "a password could not be checked: no memory")


def test_a_bound_that_would_keep_everybody_out_is_a_bug_of_ours() -> None:
    with pytest.raises(MisuseError):
        Authenticator(max_hashings=0)
