"""Logins."""

import asyncio
import os
from pathlib import Path

import pytest

from holdfast.console.access.credential_files import read_users, remove_user, set_user, verify_password
from holdfast.console.access.login import COOKIE_LIFETIME_US, Login, LoginLimits
from holdfast.console.access.one_time_links import LIFETIME_S, login_address, make_link, use_link
from holdfast.console.problems import ProblemError
from holdfast.model.clock import ManualClock
from holdfast.model.errors import SettingsError
from holdfast.model.time import SECOND_US


def test_a_cookie_ends_after_twelve_hours_and_with_the_process(tmp_path: Path) -> None:
    clock = ManualClock(wall_us=int((tmp_path.stat().st_mtime + 60) * SECOND_US))
    login = Login(tmp_path, None, None, clock)
    identity, cookie = login.by_link(make_link(tmp_path), "127.0.0.1")
    assert login.of_cookie(cookie) == identity
    assert Login(tmp_path, None, None, clock).of_cookie(cookie) is None
    clock.advance(COOKIE_LIFETIME_US)
    assert login.of_cookie(cookie) is None


def test_a_link_ends_after_an_hour(tmp_path: Path) -> None:
    token = make_link(tmp_path)
    (path,) = (tmp_path / "links").iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    assert token not in str(path)
    made_s = path.stat().st_mtime
    assert not use_link(tmp_path, token, made_s + LIFETIME_S + 1)
    assert list((tmp_path / "links").iterdir()) == []
    again = make_link(tmp_path)
    assert use_link(tmp_path, again, made_s + LIFETIME_S - 1)
    assert not use_link(tmp_path, again, made_s)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: run the tests with sudo")
def test_a_link_that_root_makes_can_be_used_by_the_owner_of_the_folder(tmp_path: Path) -> None:
    state = tmp_path / "console"
    state.mkdir()
    os.chown(state, 1883, 1883)
    make_link(state)
    assert (state / "links").stat().st_uid == 1883


@pytest.mark.parametrize("token", ["", "..", "../links", "\ud800", "x" * 100_000, "a\0b"])
def test_a_token_of_any_text_is_just_wrong(tmp_path: Path, token: str) -> None:
    make_link(tmp_path)
    assert not use_link(tmp_path, token, os.stat(tmp_path).st_mtime)
    assert len(list((tmp_path / "links").iterdir())) == 1


def test_the_token_stands_behind_the_number_sign() -> None:
    assert login_address("http://127.0.0.1:1", "abc") == "http://127.0.0.1:1/login#token=abc"


def test_tries_are_counted_by_name_and_by_address() -> None:
    clock = ManualClock()
    limits = LoginLimits(clock)
    for number in range(5):
        limits.take("eva", f"10.0.0.{number}")
    with pytest.raises(ProblemError) as refused:
        limits.take("eva", "10.0.0.99")
    assert (refused.value.status, refused.value.headers["Retry-After"]) == (429, "60")
    limits.take("adam", "10.0.0.99")
    clock.advance(60 * SECOND_US)
    limits.take("eva", "10.0.0.1")


def test_many_names_do_not_fill_the_memory() -> None:
    limits = LoginLimits(ManualClock())
    for number in range(12_000):
        limits.take(f"name-{number}", f"address-{number}")
    assert len(limits._tries) <= 10_002


def test_names_of_tries_that_are_refused_are_not_kept() -> None:
    limits = LoginLimits(ManualClock())
    for number in range(5):
        limits.take(f"{number}" * 1_000_000, "10.0.0.1")
    for number in range(20_000):
        with pytest.raises(ProblemError):
            limits.take(f"name-{number}", "10.0.0.1")
    assert len(limits._tries) == 6
    assert max(len(value) for _kind, value in limits._tries) <= 100


def test_users_are_written_read_changed_and_removed(tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.write_text("# who may\n")
    assert set_user(file, "eva", "viewer", "long enough")
    assert not set_user(file, "eva", "admin", "another one")
    users = read_users(file)
    assert users["eva"].role == "admin"
    assert verify_password(users, "eva", "another one") == users["eva"]
    assert verify_password(users, "eva", "long enough") is None
    assert verify_password(users, "adam", "another one") is None
    assert file.read_text().startswith("# who may\n")
    assert "another one" not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    assert remove_user(file, "eva")
    assert not remove_user(file, "eva")


@pytest.mark.parametrize(
    ("name", "role", "password"),
    [
        ("a:b", "viewer", "x" * 8),
        ("", "viewer", "x" * 8),
        ("a", "king", "x" * 8),
        ("a", "viewer", "short"),
        ("a\n", "viewer", "x" * 8),
    ],
)
def test_what_cannot_be_a_user_is_refused(tmp_path: Path, name: str, role: str, password: str) -> None:
    with pytest.raises(SettingsError):
        set_user(tmp_path / "users", name, role, password)
    assert not (tmp_path / "users").exists()


def test_a_wrong_line_is_named_and_not_shown(tmp_path: Path) -> None:
    (tmp_path / "users").write_text("eva:viewer:secret-in-clear\n")
    with pytest.raises(SettingsError) as refused:
        Login(tmp_path, tmp_path / "users", None, ManualClock())
    assert "users:1" in str(refused.value)
    assert "secret-in-clear" not in str(refused.value)


def test_wrong_name_and_wrong_password_get_the_same_answer(tmp_path: Path) -> None:
    set_user(tmp_path / "users", "eva", "viewer", "long enough")
    login = Login(tmp_path, tmp_path / "users", None, ManualClock())
    details = []
    for name in ("eva", "adam"):
        with pytest.raises(ProblemError) as refused:
            asyncio.run(login.by_password(name, "wrong", name))
        details.append((refused.value.status, refused.value.detail))
    assert details[0] == details[1]
