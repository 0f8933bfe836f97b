"""Stored hashes: each form is read, nothing of them is shown, and nonsense is refused by name."""

import re
from collections.abc import Callable

import pytest

from holdfast.broker.access.hashes import make_hash, parse_hash
from tests.unit.broker.access.password_hashes import argon2id, pbkdf2, sha512

SECRET = b"correct horse"


@pytest.mark.parametrize("form", [pbkdf2, sha512, argon2id])
def test_each_form_takes_the_right_password_and_no_other(form: Callable[[bytes], str]) -> None:
    stored = parse_hash(form(SECRET))
    assert stored.verify(SECRET)
    for wrong in (b"", b"correct hors", b"correct horse ", b"Correct horse", SECRET * 2, b"\0"):
        assert not stored.verify(wrong)


@pytest.mark.parametrize("password", [b"x", b"\xff\xfe not UTF-8", b"\0", b"x" * 65_535])
def test_a_new_hash_is_argon2id_and_takes_any_bytes(password: bytes) -> None:
    text = make_hash(password)
    assert text.startswith("$argon2id$v=19$m=65536,t=3,p=4$")
    assert parse_hash(text).verify(password)


def test_the_same_password_is_stored_differently_each_time() -> None:
    assert make_hash(SECRET) != make_hash(SECRET)


@pytest.mark.parametrize("form", [pbkdf2, sha512, argon2id])
def test_a_decoy_costs_the_same_and_takes_no_password(form: Callable[[bytes], str]) -> None:
    stored = parse_hash(form(SECRET))
    decoy = stored.decoy()
    assert type(decoy) is type(stored)
    assert decoy.cost() == stored.cost()
    assert not decoy.verify(SECRET)


def test_hashes_of_other_parameters_have_other_costs() -> None:
    texts = [pbkdf2(SECRET), pbkdf2(SECRET, 102), sha512(SECRET), argon2id(SECRET), argon2id(SECRET, 128)]
    assert len({parse_hash(text).cost() for text in texts}) == len(texts)


@pytest.mark.parametrize("form", [pbkdf2, sha512, argon2id])
def test_a_hash_shows_nothing_of_itself(form: Callable[[bytes], str]) -> None:
    text = form(SECRET)
    shown = repr(parse_hash(text)) + str(parse_hash(text))
    assert not any(part in shown for part in text.split("$")[-2:])


SALT, DIGEST = pbkdf2(SECRET).split("$")[-2:]
PHC_SALT, PHC_DIGEST = argon2id(SECRET).split("$")[-2:]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("hunter2", "none of the forms $argon2id"),
        ("", "none of the forms"),
        ("$2b$12$abcdefghijklmnopqrstuv", "none of the forms"),
        ("$argon2i$v=19$m=64,t=1,p=1$c2FsdHNhbHQ$aaaa", "none of the forms"),
        (f"$7$x${SALT}${DIGEST}", "none of the forms"),
        (f"$7$0${SALT}${DIGEST}", "0 iterations; 1 to 10000000"),
        (f"$7$999999999${SALT}${DIGEST}", "999999999 iterations"),
        (f"$7$101${SALT}!${DIGEST}", "the salt is not base64"),
        (f"$7$101${SALT}$hunter2", "the digest is not base64"),
        (f"$7$101${SALT}${SALT}", "the digest has 12 bytes; SHA-512 has 64"),
        (f"$6$é${DIGEST}", "the salt is not base64"),
        (f"$6${SALT}${SALT}", "the digest has 12 bytes"),
        (f"$argon2id$v=16$m=64,t=1,p=1${PHC_SALT}${PHC_DIGEST}", "v=16; v=19 is accepted"),
        (f"$argon2id$v=19$m=64,t=0,p=1${PHC_SALT}${PHC_DIGEST}", "t=0; t=1 to t=100"),
        (f"$argon2id$v=19$m=64,t=1,p=0${PHC_SALT}${PHC_DIGEST}", "p=0; p=1 to p=64"),
        (f"$argon2id$v=19$m=31,t=1,p=4${PHC_SALT}${PHC_DIGEST}", "m=31; m=32 to m=1048576 are accepted for p=4"),
        (f"$argon2id$v=19$m=9999999,t=1,p=1${PHC_SALT}${PHC_DIGEST}", "m=9999999"),
        (f"$argon2id$v=19$m=64,t=1,p=1$c2FsdA${PHC_DIGEST}", "the salt has 4 bytes; at least 8"),
        (f"$argon2id$v=19$m=64,t=1,p=1${PHC_SALT}$aGFzaA", "the digest has 4 bytes; at least 16"),
        (f"$argon2id$v=19$m=64,t=1,p=1${PHC_SALT}${PHC_DIGEST}=", "no padding"),
        (f"$argon2id$v=19$m=64,t=1,p=1${PHC_SALT}$!{PHC_DIGEST}", "the digest is not base64"),
    ],
)
def test_a_bad_hash_is_refused_with_what_is_wrong_and_without_showing_it(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)) as refused:
        parse_hash(text)
    assert not any(secret in str(refused.value) for secret in ("hunter2", SALT, DIGEST, PHC_SALT, PHC_DIGEST))
