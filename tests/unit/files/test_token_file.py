"""The token file."""

import hmac
from pathlib import Path

import pytest

from holdfast.files.token_file import TokenEntry, add_token, find_token, read_token_file, remove_token
from holdfast.model.errors import SettingsError
from holdfast.model.roles import ROLES

DIGEST = "a" * 64


def test_a_token_is_found_by_itself_alone(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    token = add_token(file, "ci", role="viewer", expires_s=5, filters=["plant/#", "a b/+"])
    entries = read_token_file(file)
    found = find_token(entries, token)
    assert found is not None
    assert (found.name, found.role, found.expires_s, found.filters) == ("ci", "viewer", 5, ("plant/#", "a b/+"))
    assert find_token(entries, token[:-1]) is None
    assert find_token(entries, "") is None
    assert token not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_token_is_compared_with_every_line_whether_it_is_right_or_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the time that it takes tells nothing of which one it is, or of how much of it is right."""
    file = tmp_path / "tokens"
    tokens = [add_token(file, f"t{number}") for number in range(5)]
    entries = read_token_file(file)
    compared: list[str] = []
    compare = hmac.compare_digest

    def counted(shown: str, kept: str) -> bool:
        compared.append(kept)
        return compare(shown, kept)

    monkeypatch.setattr(hmac, "compare_digest", counted)
    for token in (tokens[0], tokens[2], tokens[-1], tokens[0][:-1], "wrong", ""):
        compared.clear()
        find_token(entries, token)
        assert compared == [entry.digest for entry in entries.values()]


def test_a_line_of_an_earlier_version_is_a_reader_without_end(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text(f"# comment\n\nspark:sha256:{DIGEST}\n")
    assert read_token_file(tmp_path / "tokens") == {"spark": TokenEntry("spark", DIGEST)}


def test_entries_are_read_as_they_were_written() -> None:
    for entry in (
        TokenEntry("a", DIGEST),
        TokenEntry("b", DIGEST, "admin", 1_800_000_000, ("a/#", "ü %/+")),
    ):
        assert entry.line().isascii()


@pytest.mark.parametrize(
    "rest", [" role=king", " expires=soon", " expires=", " colour=red", " role", ":x", " role=viewer  x"]
)
def test_a_wrong_line_is_named(tmp_path: Path, rest: str) -> None:
    (tmp_path / "tokens").write_text(f"# first\nci:sha256:{DIGEST}{rest}\n")
    with pytest.raises(SettingsError, match="tokens:2 is no token"):
        read_token_file(tmp_path / "tokens")


def test_a_token_ends(tmp_path: Path) -> None:
    entry = TokenEntry("a", DIGEST, expires_s=100)
    assert not entry.has_expired(99.9)
    assert entry.has_expired(100)
    assert not TokenEntry("a", DIGEST).has_expired(1e12)


def test_names_and_roles_are_checked(tmp_path: Path) -> None:
    for name, role in (("a b", ROLES[0]), ("", ROLES[0]), ("a", "king")):
        with pytest.raises(SettingsError):
            add_token(tmp_path / "tokens", name, role=role)
    assert not (tmp_path / "tokens").exists()


def test_removing_leaves_the_others(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    add_token(file, "a")
    add_token(file, "b", role="admin")
    assert remove_token(file, "a")
    assert not remove_token(file, "a")
    assert [entry.role for entry in read_token_file(file).values()] == ["admin"]
