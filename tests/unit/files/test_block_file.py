"""The block file: lines that are read, lines that are refused, and what survives."""

from pathlib import Path

import pytest

from holdfast.files.block_file import (
    FILE_NAME,
    MAX_BLOCKS,
    MAX_NAME_BYTES,
    MAX_REASON,
    Block,
    checked_block,
    parse_address,
    read_block_file,
    write_block_file,
)
from holdfast.model.errors import SettingsError

BLOCKS = [
    Block("client", "press-9", 1767225600000000, "floods plant/#", "eva", 1767222000000000),
    Block("client", 'plant/\0a "quoted"\nname\u2028é'),
    Block("user", "guest", reason="left"),
    Block("address", "10.0.0.0/24"),
    Block("address", "2001:db8::1"),
]


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    write_block_file(path, BLOCKS)
    assert read_block_file(path) == BLOCKS
    assert path.stat().st_mode & 0o777 == 0o600
    write_block_file(path, [])
    assert read_block_file(path) == []


def test_no_file_means_no_blocks(tmp_path: Path) -> None:
    assert read_block_file(tmp_path / FILE_NAME) == []


def test_a_line_by_hand_needs_no_more_than_a_name(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    path.write_text('\n{"user": "guest"}\n\n{"address": "::ffff:10.0.0.7"}')
    assert read_block_file(path) == [Block("user", "guest"), Block("address", "10.0.0.7")]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("client: a", "this is no block"),
        ('{"client": "a", "until": 3}', "unknown field `until`"),
        ('{"client": "a", "user": "b"}', "this one 2"),
        ('{"reason": "x"}', "this one 0"),
        ('{"client": ""}', "is empty"),
        ('{"client": "a", "until_us": "soon"}', "until_us"),
        ('{"client": "a", "until_us": -1}', "microseconds since 1970"),
        ('{"address": "10.0.0.7/24"}', "write 10.0.0.0/24"),
        ('{"address": "press-9"}', "'press-9' is no address"),
        ('{"version": 1}', "in the first line"),
        ('{"user": "guest"}', "by an earlier line already"),
        ('{"client": "\\ud800"}', "this is no block"),
        (b'{"client": "\xff"}', "this is no block"),
    ],
)
def test_a_wrong_line_is_named_with_its_number(tmp_path: Path, line: str | bytes, said: str) -> None:
    path = tmp_path / FILE_NAME
    raw = line if isinstance(line, bytes) else line.encode()
    path.write_bytes(b'{"user": "guest"}\n' + raw + b"\n")
    with pytest.raises(SettingsError) as refused:
        read_block_file(path)
    assert f"{path}:2: " in str(refused.value)
    assert said in str(refused.value)


def test_every_wrong_line_is_named_up_to_twenty(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    path.write_text("x\n" * 30)
    with pytest.raises(SettingsError) as refused:
        read_block_file(path)
    lines = str(refused.value).splitlines()
    assert len(lines) == 21
    assert lines[-1] == "and 10 more lines are wrong"


def test_a_file_of_a_later_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    path.write_text('{"version": 2}\n')
    with pytest.raises(SettingsError, match="version 2, and this Holdfast knows 1"):
        read_block_file(path)


def test_more_blocks_than_are_kept_are_refused(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    write_block_file(path, (Block("client", str(number)) for number in range(MAX_BLOCKS + 1)))
    with pytest.raises(SettingsError, match=f"{MAX_BLOCKS + 1} blocks, and {MAX_BLOCKS} are kept"):
        read_block_file(path)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    path = tmp_path / "missing" / FILE_NAME
    with pytest.raises(SettingsError, match="cannot be written"):
        write_block_file(path, [])


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("10.0.0.7/32", "10.0.0.7"),
        ("10.0.0.0/24", "10.0.0.0/24"),
        ("2001:DB8:0:0::1", "2001:db8::1"),
        ("2001:db8::/48", "2001:db8::/48"),
        ("::ffff:10.0.0.0/120", "10.0.0.0/24"),
    ],
)
def test_an_address_is_kept_in_its_shortest_form(given: str, kept: str) -> None:
    assert parse_address(given) == kept


@pytest.mark.parametrize(
    "block",
    [
        Block("topic", "a"),
        Block("client", "x" * (MAX_NAME_BYTES + 1)),
        Block("client", "a", reason="x" * (MAX_REASON + 1)),
        Block("client", "a", until_us=2**63),
    ],
)
def test_a_block_that_cannot_be_kept_is_refused(block: Block) -> None:
    with pytest.raises(SettingsError):
        checked_block(block)
