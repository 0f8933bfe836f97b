"""Blocks: who meets one, when it ends, and what a file that is wrong leaves in force."""

import asyncio
from pathlib import Path

import pytest

from holdfast.broker.access.blocks import BlockList, Blocks, describe_block
from holdfast.files.block_file import FILE_NAME, Block, read_block_file, write_block_file
from holdfast.model.clock import ManualClock
from holdfast.model.errors import SettingsError

NOW_US = 1_700_000_000_000_000


def test_an_empty_list_says_so() -> None:
    assert BlockList().is_empty
    assert not BlockList([Block("client", "a")]).is_empty


@pytest.mark.parametrize(
    ("block", "met"),
    [
        (Block("client", "press-9"), True),
        (Block("client", "press"), False),
        (Block("user", "alice"), True),
        (Block("user", "press-9"), False),
        (Block("address", "10.0.0.7"), True),
        (Block("address", "10.0.0.0/24"), True),
        (Block("address", "10.0.1.0/24"), False),
        (Block("address", "10.0.0.70"), False),
        (Block("address", "::/0"), False),
    ],
)
def test_a_client_meets_a_block_of_its_id_its_user_or_its_address(block: Block, met: bool) -> None:
    found = BlockList([block, Block("user", "other")]).find("press-9", "alice", "10.0.0.7", NOW_US)
    assert found == (block if met else None)


@pytest.mark.parametrize("address", ["2001:db8::1", "2001:db8:0:0::1", "2001:db8::1%eth0", "::ffff:10.0.0.7"])
def test_an_address_is_met_however_it_is_written(address: str) -> None:
    blocks = BlockList([Block("address", "2001:db8::/48"), Block("address", "10.0.0.7")])
    assert blocks.find("a", None, address, NOW_US) is not None


def test_of_two_networks_around_an_address_one_that_has_ended_hides_no_other() -> None:
    blocks = BlockList(
        [Block("address", "10.0.0.0/8", NOW_US - 1), Block("address", "10.0.0.0/24"), Block("user", "u")]
    )
    assert blocks.find("a", None, "10.0.0.7", NOW_US) == Block("address", "10.0.0.0/24")
    assert blocks.find("a", None, "10.0.1.7", NOW_US) is None
    everybody = BlockList([Block("address", "0.0.0.0/0"), Block("address", "::/0")])
    assert everybody.find("a", None, "192.0.2.1", NOW_US) == Block("address", "0.0.0.0/0")
    assert everybody.find("a", None, "2001:db8::1", NOW_US) == Block("address", "::/0")


def test_a_client_without_user_or_address_meets_no_block_of_another() -> None:
    blocks = BlockList([Block("user", "alice"), Block("address", "0.0.0.0/0")])
    assert blocks.find("a", None, "unix socket", NOW_US) is None


def test_a_block_ends_at_its_time() -> None:
    clock = ManualClock(wall_us=NOW_US)

    async def work() -> None:
        blocks = Blocks(None, clock)
        for block in (Block("client", "a", NOW_US + 10), Block("address", "10.0.0.0/8", NOW_US + 10)):
            await blocks.add([block])
        assert blocks.find("a", None, "") is not None
        assert blocks.find("b", None, "10.1.1.1") is not None
        clock.advance(10)
        assert blocks.find("a", None, "") is None
        assert blocks.find("b", None, "10.1.1.1") is None
        assert blocks.listed() == []

    asyncio.run(work())


def test_blocks_survive_a_restart_and_those_that_ended_leave_the_file(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    clock = ManualClock(wall_us=NOW_US)

    async def work() -> None:
        blocks = Blocks(path, clock)
        await blocks.add([Block("client", "a", NOW_US + 10, since_us=1), Block("user", "u", since_us=2)])
        await blocks.add([Block("user", "u", reason="again", since_us=3)])
        again = Blocks(path, clock)
        assert again.listed() == [
            Block("user", "u", reason="again", since_us=3),
            Block("client", "a", NOW_US + 10, since_us=1),
        ]
        clock.advance(10)
        assert [block.value for block in await again.remove([("user", "u"), ("user", "nobody")])] == ["u"]
        assert read_block_file(path) == []
        assert again.in_force.is_empty

    asyncio.run(work())


def test_a_file_that_becomes_wrong_leaves_the_old_blocks_and_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    write_block_file(path, [Block("client", "a")])

    async def work() -> None:
        blocks = Blocks(path, ManualClock())
        path.write_text('{"client": "b"}\nnonsense\n')
        with pytest.raises(SettingsError):
            blocks.reload()
        assert f"{path}:2: " in blocks.problem
        assert [block.value for block in blocks.listed()] == ["a"]
        with pytest.raises(SettingsError, match=":2: "):
            await blocks.add([Block("client", "c")])
        assert "nonsense" in path.read_text()
        assert [block.value for block in blocks.listed()] == ["a"]
        path.write_text('{"client": "b"}\n')
        await blocks.add([Block("client", "c")])
        assert blocks.problem == ""
        assert {block.value for block in blocks.listed()} == {"b", "c"}

    asyncio.run(work())


def test_an_edit_by_hand_is_not_lost_by_the_next_change(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME

    async def work() -> None:
        blocks = Blocks(path, ManualClock())
        await blocks.add([Block("client", "a")])
        path.write_text('{"client": "by hand"}\n')
        await blocks.add([Block("client", "b")])
        assert {block.value for block in read_block_file(path)} == {"by hand", "b"}

    asyncio.run(work())


def test_a_file_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    async def work() -> None:
        blocks = Blocks(tmp_path / "missing" / FILE_NAME, ManualClock())
        with pytest.raises(SettingsError, match="cannot be written"):
            await blocks.add([Block("client", "a")])
        assert blocks.in_force.is_empty

    asyncio.run(work())


def test_a_broker_does_not_begin_with_a_wrong_file(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    path.write_text("nonsense\n")
    with pytest.raises(SettingsError, match=":1: "):
        Blocks(path, ManualClock())


def test_two_changes_at_once_are_both_kept(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME

    async def work() -> None:
        blocks = Blocks(path, ManualClock())
        await asyncio.gather(*(blocks.add([Block("client", str(number))]) for number in range(8)))
        assert len(read_block_file(path)) == 8

    asyncio.run(work())


def test_a_client_is_told_by_what_and_until_when_and_not_why() -> None:
    text = describe_block(Block("address", "10.0.0.7", NOW_US, "a secret reason"))
    assert text == "blocked by an administrator, by its address, until 2023-11-14 22:13:20 UTC"
    assert describe_block(Block("client", "a")) == "blocked by an administrator, by its client id"
    assert describe_block(Block("client", "a", 2**63 - 1)) == "blocked by an administrator, by its client id"
