"""The password file: read as Mosquitto writes it, edited without loss, silent about what it holds."""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.broker.access import passwords
from holdfast.broker.access.hashes import Argon2Hash, PasswordHash, parse_hash
from holdfast.broker.access.passwords import PasswordFile, list_users, remove_user, set_password
from holdfast.model.errors import SettingsError, TransientError
from tests.services import need
from tests.unit.broker.access.password_hashes import argon2id, pbkdf2, sha512


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "holdfast.passwd"


@pytest.fixture
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """New hashes that cost little; what they look like by default is tested with the hashes."""
    monkeypatch.setattr(passwords, "make_hash", argon2id)


@pytest.mark.parametrize("form", [(), ("-H", "sha512"), ("-H", "sha512-pbkdf2")])
def test_what_mosquitto_passwd_writes_is_understood(path: Path, form: tuple[str, ...]) -> None:
    program = need("mosquitto_passwd", "mosquitto")
    for option, user, password in (("-c", "alice", "se cret"), ("", "bob", "pässword")):
        options = [*form, option] if option else list(form)
        subprocess.run([program, *options, "-b", str(path), user, password], check=True, capture_output=True)
    known = PasswordFile.load(path)
    assert known.verify("alice", b"se cret")
    assert known.verify("bob", "pässword".encode())
    assert not known.verify("alice", "pässword".encode())


def test_mosquitto_passwd_keeps_the_lines_that_holdfast_wrote(path: Path) -> None:
    program = need("mosquitto_passwd", "mosquitto")
    set_password(path, "alice", b"secret")
    subprocess.run([program, "-b", str(path), "bob", "other"], check=True, capture_output=True)
    known = PasswordFile.load(path)
    assert known.verify("alice", b"secret")
    assert known.verify("bob", b"other")


def test_every_form_may_stand_in_one_file(path: Path) -> None:
    path.write_text(f"# users\r\n\na:{pbkdf2(b'1')}\r\n b b :{sha512(b'2')}  \n\nc:{argon2id(b'3')}", encoding="utf-8")
    known = PasswordFile.load(path)
    assert [known.verify(user, b"2") for user in ("a", "b b", "c", "d")] == [False, True, False, False]
    assert list_users(path) == ["a", "b b", "c"]
    assert ("a" in known, "d" in known, len(known)) == (True, False, 3)


def test_names_are_compared_as_they_are(path: Path) -> None:
    path.write_text(f"\ufeffé:{pbkdf2(b'1')}\nE:{pbkdf2(b'2')}\ne:{pbkdf2(b'3')}\n", encoding="utf-8")
    known = PasswordFile.load(path)
    assert known.verify("é", b"1")
    assert known.verify("e", b"3")
    assert not known.verify("E", b"3")
    assert not known.verify("e\u0301", b"1")


def watch(form: type[PasswordHash], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The costs of all checks from now on; each says that the password is right."""
    costs: list[str] = []

    def verify(stored: PasswordHash, password: bytes) -> bool:
        costs.append(stored.cost())
        return True

    monkeypatch.setattr(form, "verify", verify)
    return costs


@pytest.mark.parametrize("common", [pbkdf2(b"x"), sha512(b"x"), argon2id(b"x")])
def test_an_unknown_user_costs_what_most_users_cost(path: Path, common: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rare = argon2id(b"x", 128)
    path.write_text(f"a:{rare}\nb:{common}\nc:{common}\n", encoding="utf-8")
    known = PasswordFile.load(path)
    form = type(parse_hash(common))
    checked = watch(form, monkeypatch)
    assert not known.verify("nobody", b"x")
    assert checked == [parse_hash(common).cost()]


def test_an_unknown_user_of_an_empty_file_costs_what_a_new_hash_costs(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.touch()
    checked = watch(Argon2Hash, monkeypatch)
    assert not PasswordFile.load(path).verify("nobody", b"x")
    assert checked == ["$argon2id$v=19$m=65536,t=3,p=4"]


def test_lack_of_memory_is_no_wrong_password(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = parse_hash(argon2id(b"x"))
    # Lets argon2 fail as it does without memory: with an error that is not about the password.
    monkeypatch.setattr(stored, "_phc", b"$argon2id$v=19$m=1,t=1,p=1$c2FsdHNhbHQ$aGFzaGhhc2g")
    with pytest.raises(TransientError, match="could not be checked"):
        stored.verify(b"x")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("\nhunter2\n", "2: the line has no colon; a user's line is <user>:<hash>"),
        (f":{pbkdf2(b'x')}", "1: no user before the colon"),
        (f"  :{pbkdf2(b'x')}", "1: no user before the colon"),
        ("# c\nalice:hunter2\n", "2: user 'alice': the hash has none of the forms"),
        ("alice:hunter2\n", "delete the line, then: holdfast user add"),
        ("alice:\n", "1: user 'alice': the hash has none of the forms"),
        (
            f"a:{pbkdf2(b'x')}\nb:{pbkdf2(b'x')}\na :{sha512(b'x')}",
            "3: user 'a' already stands in line 1; keep one of the two lines",
        ),
        (" # hunter2", "1: the line has no colon"),
    ],
)
def test_a_bad_line_is_named_with_what_would_be_right_and_no_secret(path: Path, text: str, complaint: str) -> None:
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError) as refused:
        PasswordFile.load(path)
    assert f"{path}:{complaint}" in str(refused.value) or complaint in str(refused.value)
    assert str(path) in str(refused.value)
    assert "hunter2" not in str(refused.value)
    assert pbkdf2(b"x").split("$")[-1] not in str(refused.value)


def test_a_file_that_is_not_utf_8_is_refused_by_line(path: Path) -> None:
    path.write_bytes(b"# fine\nbj\xf6rn:$6$x$y\n")
    with pytest.raises(SettingsError, match=r"passwd:2: this line is not UTF-8; save the password file in UTF-8"):
        PasswordFile.load(path)


def test_a_missing_file_is_named(path: Path) -> None:
    with pytest.raises(SettingsError, match=r"the password file .*holdfast\.passwd does not exist"):
        PasswordFile.load(path)
    with pytest.raises(SettingsError, match="cannot be read: Is a directory"):
        PasswordFile.load(path.parent)


def test_a_loaded_file_shows_no_user_and_no_hash(path: Path) -> None:
    path.write_text(f"alice:{pbkdf2(b'x')}\n", encoding="utf-8")
    assert repr(PasswordFile.load(path)) == f"PasswordFile({str(path)!r}, 1 users)"


@pytest.mark.usefixtures("cheap")
def test_an_edit_keeps_everything_else_as_it_was(path: Path) -> None:
    before = f"# first\n\na:{pbkdf2(b'1')}\n# about b\nb:{sha512(b'2')}\n\n# last"
    path.write_text(before, encoding="utf-8")
    assert not set_password(path, "a", b"new")
    assert set_password(path, "c", b"3")
    lines = path.read_text(encoding="utf-8").split("\n")
    old = before.split("\n")
    assert lines[:2] + lines[3:7] == old[:2] + old[3:]
    assert [line.partition(":")[0] for line in (lines[2], lines[7])] == ["a", "c"]
    assert lines[8:] == [""]
    assert remove_user(path, "c")
    assert remove_user(path, "a")
    assert path.read_text(encoding="utf-8").split("\n") == [*old[:2], *old[3:], ""]
    assert list_users(path) == ["b"]


@pytest.mark.usefixtures("cheap")
def test_a_password_that_was_set_is_the_only_right_one(path: Path) -> None:
    assert set_password(path, "alice", b"first")
    assert not set_password(path, "alice", b"second")
    assert path.read_text(encoding="utf-8").count("\n") == 1
    known = PasswordFile.load(path)
    assert known.verify("alice", b"second")
    assert not known.verify("alice", b"first")


@pytest.mark.usefixtures("cheap")
def test_a_new_file_is_for_its_owner_alone_and_an_old_one_keeps_its_mode(path: Path) -> None:
    set_password(path, "alice", b"1")
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o640)
    set_password(path, "bob", b"2")
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.usefixtures("cheap")
def test_an_edit_goes_through_a_link_and_leaves_nothing_behind(path: Path) -> None:
    real = path.parent / "real"
    path.symlink_to(real)
    set_password(path, "alice", b"1")
    assert path.is_symlink()
    assert list_users(real) == ["alice"]
    assert sorted(os.listdir(path.parent)) == ["holdfast.passwd", "real"]


@pytest.mark.usefixtures("cheap")
def test_a_failed_edit_leaves_the_old_file_and_nothing_else(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_password(path, "alice", b"1")
    before = path.read_bytes()

    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SettingsError, match="cannot be written: No space left on device"):
        set_password(path, "bob", b"2")
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["holdfast.passwd"]


@pytest.mark.usefixtures("cheap")
def test_the_new_text_is_synced_before_it_takes_the_place_of_the_old(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    acts: list[str] = []
    sync, replace = os.fsync, os.replace

    def noted_sync(file: int) -> None:
        acts.append("sync")
        sync(file)

    def noted_replace(old: str, new: Path) -> None:
        acts.append("rename")
        replace(old, new)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(os, "replace", noted_replace)
    set_password(path, "alice", b"1")
    assert acts == ["sync", "rename", "sync"]


@pytest.mark.usefixtures("cheap")
def test_edits_at_the_same_time_do_not_lose_each_other(path: Path) -> None:
    users = [f"user {number}" for number in range(20)]
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(lambda user: set_password(path, user, b"x"), users))
    assert sorted(list_users(path)) == sorted(users)


@pytest.mark.usefixtures("cheap")
def test_a_broken_file_is_not_edited(path: Path) -> None:
    path.write_text("alice:hunter2\n", encoding="utf-8")
    with pytest.raises(SettingsError, match="1: user 'alice'"):
        set_password(path, "bob", b"x")
    with pytest.raises(SettingsError, match="1: user 'alice'"):
        remove_user(path, "bob")
    assert path.read_text(encoding="utf-8") == "alice:hunter2\n"


def test_removing_nobody_is_told_and_changes_nothing(path: Path) -> None:
    path.write_text(f"a:{pbkdf2(b'1')}", encoding="utf-8")
    before = path.stat()
    assert not remove_user(path, "b")
    assert path.stat().st_ino == before.st_ino
    with pytest.raises(SettingsError, match="does not exist"):
        remove_user(path.parent / "other", "b")


@pytest.mark.parametrize("user", ["", "a:b", "#a", " a", "a ", "a\nb", "a\0", "\ud800", "a" * 65_536])
def test_a_name_that_cannot_stand_in_the_file_is_refused(path: Path, user: str) -> None:
    with pytest.raises(SettingsError, match="user name") as refused:
        set_password(path, user, b"hunter2")
    assert "hunter2" not in str(refused.value)
    assert len(str(refused.value)) < 500
    assert not path.exists()


@pytest.mark.parametrize(
    ("password", "complaint"), [(b"", "is empty"), (b"x" * 65_536, "65536 bytes; MQTT carries 65535")]
)
def test_a_password_that_no_client_could_send_is_refused(path: Path, password: bytes, complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        set_password(path, "alice", password)


def test_a_folder_that_does_not_exist_is_named(path: Path) -> None:
    with pytest.raises(SettingsError, match=r"cannot be written: .*missing: No such file or directory"):
        set_password(path.parent / "missing" / "passwd", "alice", b"x")
