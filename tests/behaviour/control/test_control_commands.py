"""Commands that ask a running broker: what they print, and how they end."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import structlog
from typer.testing import CliRunner, Result

from holdfast.broker.policy import Limits
from holdfast.cli.main import app
from holdfast.client.asyncio_client import Client
from holdfast.client.options import ConnectionOptions
from holdfast.control.words import Histogram
from holdfast.model.errors import SettingsError
from holdfast.node.embedding import Node, running
from holdfast.node.lifecycle import reload
from holdfast.node.settings.tree import Listener, Settings, Storage, Sys

Command = Callable[..., Awaitable[Result]]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short, so that the socket lies in it."""
    with TemporaryDirectory(dir="/tmp") as made:
        yield Path(made)


def settings(folder: Path, **more: object) -> Settings:
    listeners = {"default": Listener(port=0)}
    return Settings(listeners=listeners, storage=Storage(data=folder), sys=Sys(interval_s=0), **more)  # type: ignore[arg-type]


@asynccontextmanager
async def commands(folder: Path) -> AsyncIterator[tuple[Node, Command]]:
    """A broker, and a way to run commands beside its loop."""

    async def command(*arguments: str) -> Result:
        return await asyncio.to_thread(CliRunner().invoke, app, [*arguments, "--data", str(folder)])

    # The broker's log lines would be in the output of the commands: it is the same process.
    with structlog.testing.capture_logs():
        async with running(settings(folder), grace_s=0) as node:
            yield node, command


def client(node: Node, name: str, **options: object) -> Client:
    return Client(ConnectionOptions.from_url(node.url(), client_id=name, **options))


def run(test: Callable[[], object]) -> None:
    asyncio.run(asyncio.wait_for(test(), 60))  # type: ignore[arg-type]


def test_zones_and_patterns_are_listed_beside_a_running_broker_as_without_it(folder: Path) -> None:
    async def test() -> None:
        async with commands(folder) as (node, command):
            async with client(node, "a") as publisher:
                for number in range(40):
                    await publisher.publish(f"plant/{number}/temp", b"21", 1)
                await publisher.settle()
            beside = [json.loads((await command("zones", what, "--json")).stdout) for what in ("list", "patterns")]
        alone = [json.loads((await command("zones", what, "--json")).stdout) for what in ("list", "patterns")]
        for row in (*beside[0], *alone[0]):
            row.pop("size_bytes")  # the stop has written what was in memory
        assert beside == alone
        (generation,) = beside[0]
        assert (generation["zone"], generation["messages"], generation["end_us"]) == ("default", 40, 0)

    run(test)


@pytest.mark.parametrize(
    "arguments",
    [
        ["status"],
        ["health", "--json"],
        ["reload"],
        ["clients", "list", "--json"],
        ["clients", "show", "a"],
        ["clients", "kick", "a"],
        ["sessions", "end", "a"],
        ["sessions", "purge", "a"],
        ["subscriptions", "--topic", "a"],
    ],
)
def test_without_a_broker_there_is_one_line_and_status_1(folder: Path, arguments: list[str]) -> None:
    done = CliRunner().invoke(app, [*arguments, "--data", str(folder)])
    assert done.exit_code == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert "no broker runs" in line
    assert "holdfast serve" in line


def test_status_and_health_say_how_the_broker_is(folder: Path) -> None:
    async def test() -> None:
        async with commands(folder) as (node, command), client(node, "a"):
            done = await command("status")
            assert done.exit_code == 0
            assert "taking messages" in done.output
            assert "1 connected, 0 offline" in done.output
            told = json.loads((await command("status", "--json")).output)
            assert told["state"] == "taking"
            assert told["numbers"]["connects_total"] == 1
            assert told["rates"]["connects_total"] == 0
            assert (await command("health")).output == "taking messages\n"
            node.broker.exchange.intake.refusing = 0x97
            assert node.control is not None
            done = await command("health", "--json")
            assert done.exit_code == 1
            assert json.loads(done.output)["state"] == "refusing"

    run(test)


def test_clients_are_listed_shown_and_disconnected(folder: Path) -> None:
    async def test() -> None:
        async with commands(folder) as (node, command), client(node, "press-7") as one:
            await one.subscribe("plant/#")
            async with client(node, "other\x1b[31m\u202e"):
                listed = json.loads((await command("clients", "list", "--json")).output)
                assert {row["client_id"] for row in listed} == {"press-7", "other\x1b[31m\u202e"}
                printed = (await command("clients", "list")).output
                assert "\x1b" not in printed
                assert "\u202e" not in printed
                assert "other\\x1b[31m\\u202e" in printed
                found = json.loads((await command("clients", "list", "--search", "press", "--json")).output)
                assert [row["session_id"] for row in found] == ["press-7"]
                assert json.loads((await command("clients", "list", "--behind", "--json")).output) == []
            assert "plant/#" in (await command("clients", "show", "press-7")).output
            assert (await command("clients", "show", "nobody")).exit_code == 1
            shown = json.loads((await command("subscriptions", "--topic", "plant/1", "--json")).output)
            assert [item["session_id"] for item in shown["items"]] == ["press-7"]
            assert "1 subscriptions" in (await command("subscriptions", "--under", "#")).output
            assert (await command("subscriptions")).exit_code == 2

    run(test)


def test_a_client_is_kicked_and_its_session_ended_and_emptied(folder: Path) -> None:
    async def test() -> None:
        async with commands(folder) as (node, command):
            async with client(node, "a", clean_start=False, session_expiry_s=100, retry_for_s=30) as kicked:
                await kicked.subscribe("t", qos=1)
                done = await command("clients", "kick", "a", "--reason", "bye")
                assert "closed the connection of a from 127.0.0.1" in done.output
            assert "at most 0 messages" in (await command("sessions", "purge", "a")).output
            assert (await command("sessions", "end", "a")).exit_code == 0
            done = await command("sessions", "end", "a", "--json")
            assert done.exit_code == 1
            assert "there is no session 'a'" in done.stderr

    run(test)


def test_a_reload_prints_what_changed_and_fails_if_a_part_was_wrong(folder: Path) -> None:
    async def test() -> None:
        async with commands(folder) as (node, command):
            refused = await command("reload")
            assert refused.exit_code == 1
            assert "inside another program" in refused.stderr
            assert node.control is not None
            words = node.control.words
            words.reload_all = lambda: reload(node, lambda: settings(folder, limits=Limits(max_connections=7)))
            assert "limits.max_connections: 10000 → 7" in (await command("reload")).output

            def wrong() -> Settings:
                raise SettingsError("limits.max_connections = -1 is wrong")

            words.reload_all = lambda: reload(node, wrong)
            done = await command("reload", "--json")
            assert done.exit_code == 1
            assert json.loads(done.output)["errors"] == {"settings": "limits.max_connections = -1 is wrong"}

    run(test)


def test_a_quantile_is_the_bound_that_enough_values_keep() -> None:
    from holdfast.cli.status import quantile  # the sources are chosen when pytest is configured

    nothing = Histogram((0, 0, 0), 0.0)
    assert quantile(nothing, nothing, (1.0, 2.0), 0.5) is None
    some = Histogram((98, 1, 1), 0.0)
    assert quantile(nothing, some, (1.0, 2.0), 0.5) == 1.0
    assert quantile(nothing, some, (1.0, 2.0), 0.99) == 2.0
    assert quantile(nothing, some, (1.0, 2.0), 1.0) == float("inf")
