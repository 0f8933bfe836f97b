"""`holdfast blocks`, beside a running broker and on the files of a stopped one."""

import asyncio
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.cli.main import app
from holdfast.client.errors import LostError, RefusedError
from holdfast.files.block_file import FILE_NAME, Block, read_block_file, write_block_file
from tests.behaviour.control.test_control_commands import client, commands, folder, run

__all__ = ["folder"]


def test_clients_users_and_addresses_are_blocked_listed_and_let_in_again(folder: Path) -> None:
    async def test() -> None:
        async with commands(folder) as (node, command):
            is_in = asyncio.Event()

            async def stay() -> None:
                async with client(node, "a"):
                    is_in.set()
                    await asyncio.Event().wait()

            staying = asyncio.create_task(stay())
            await is_in.wait()
            named = ("--client", "a", "--client", "b", "--user", "guest", "--address", "10.0.0.0/24")
            done = await command("blocks", "add", *named, "--reason", "floods\x1b[31m", "--expires", "1h")
            assert done.output.startswith("blocked 4, until ")
            assert done.output.endswith("UTC; 1 connections were closed\n")
            with pytest.raises(LostError, match="0x98"):
                await staying
            with pytest.raises(RefusedError, match="0x8A"):
                async with client(node, "b"):
                    pass
            told = json.loads((await command("blocks", "list", "--json")).output)
            found = {(one["kind"], one["value"]) for one in told["items"]}
            assert found == {("client", "a"), ("client", "b"), ("user", "guest"), ("address", "10.0.0.0/24")}
            assert all(one["by"] and one["until_us"] > one["since_us"] for one in told["items"])
            printed = (await command("blocks", "list")).output
            assert "\x1b" not in printed
            assert "4 blocks" in printed
            assert (
                await command("blocks", "remove", "--client", "b", "--user", "nobody")
            ).output == "removed 1 of 2 blocks\n"
            async with client(node, "b"):
                pass
            missing = await command("blocks", "remove", "--client", "b")
            assert (missing.exit_code, "there is no block of client 'b'" in missing.stderr) == (1, True)

    run(test)


def test_without_a_broker_the_file_is_edited_and_its_next_start_holds_to_it(folder: Path) -> None:
    def command(*words: str) -> str:
        done = CliRunner().invoke(app, ["blocks", *words, "--data", str(folder)])
        assert done.exit_code == 0, done.output
        return done.output

    command("add", "--client", "a", "--mount-point", "plant/", "--reason", "gone")
    command("add", "--client", "b", "--address", "::ffff:10.0.0.7")
    assert {block.key for block in read_block_file(folder / FILE_NAME)} == {
        ("client", "plant/\0a"),
        ("client", "b"),
        ("address", "10.0.0.7"),
    }
    assert "a (mount point plant/)" in command("list")
    assert json.loads(command("remove", "--address", "10.0.0.7", "--json")) == {"removed": 1}

    async def test() -> None:
        async with commands(folder) as (node, _command):
            with pytest.raises(RefusedError, match="0x8A"):
                async with client(node, "b"):
                    pass

    run(test)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("add",), 2, "--client, --user, --address"),
        (("add", "--address", "nowhere"), 2, "'nowhere' is no address"),
        (("add", "--client", ""), 2, "is empty"),
        (("add", "--client", "a", "--expires", "soon"), 2, "such as 30d"),
        (("remove", "--client", "a"), 1, "has no such block"),
    ],
)
def test_what_is_wrong_is_said(folder: Path, words: tuple[str, ...], code: int, said: str) -> None:
    done = CliRunner().invoke(app, ["blocks", *words, "--data", str(folder)])
    assert (done.exit_code, said in done.stderr) == (code, True), done.stderr
    assert not (folder / FILE_NAME).exists()


def test_a_folder_that_is_none_is_named(folder: Path) -> None:
    for words in (("list",), ("add", "--client", "a")):
        done = CliRunner().invoke(app, ["blocks", *words, "--data", str(folder / "missing")])
        assert (done.exit_code, "there is no data folder" in done.stderr) == (1, True)


def test_a_wrong_file_is_named_by_line_and_ends_the_list_with_status_1(folder: Path) -> None:
    write_block_file(folder / FILE_NAME, [Block("client", "a")])

    async def test() -> None:
        async with commands(folder) as (node, command):
            (folder / FILE_NAME).write_text("nonsense\n")
            done = await command("blocks", "add", "--client", "b")
            assert (done.exit_code, f"{FILE_NAME}:1: " in done.stderr) == (1, True)
            done = await command("blocks", "list", "--json")
            assert (done.exit_code, f"{FILE_NAME}:1: " in done.stderr) == (1, True)
            assert [one["value"] for one in json.loads(done.stdout)["items"]] == ["a"]
            assert node.broker.blocks.problem

    run(test)
    done = CliRunner().invoke(app, ["blocks", "list", "--data", str(folder)])
    assert (done.exit_code, f"{FILE_NAME}:1: " in done.stderr) == (2, True)


def test_a_list_of_blocks_may_be_long(folder: Path) -> None:
    write_block_file(folder / FILE_NAME, [Block("client", f"c{number}") for number in range(2500)])

    async def test() -> None:
        async with commands(folder) as (_node, command):
            told = json.loads((await command("blocks", "list", "--json")).output)
            assert len({one["value"] for one in told["items"]}) == 2500

    asyncio.run(test())
