"""Blocks by the control socket of a real broker: at once, over a restart, listed in parts, refused in words."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import structlog

from holdfast.client.asyncio_client import Client
from holdfast.client.errors import LostError, RefusedError
from holdfast.client.options import ConnectionOptions
from holdfast.control.block_batches import BATCH_BYTES, block_batches
from holdfast.control.words import (
    BAD_REQUEST,
    LISTED,
    NOT_FOUND,
    NOT_POSSIBLE,
    Blocked,
    BlockInfo,
    BlockRequest,
    BlockRows,
    BlocksRequest,
    Nothing,
    Stats,
    Unblocked,
    UnblockRequest,
)
from holdfast.files.block_file import FILE_NAME, MAX_NAME_BYTES, MAX_REASON, Block, write_block_file
from holdfast.files.socket_path import find_socket
from holdfast.model.errors import SettingsError
from holdfast.node.embedding import Node, running
from holdfast.node.lifecycle import reload
from holdfast.node.settings.tree import Listener, Settings, Storage, Sys
from tests.control_peer import ControlPeer, control_peer


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short, so that the socket lies in it."""
    with TemporaryDirectory(dir="/tmp") as made:
        yield Path(made)


def settings(folder: Path) -> Settings:
    return Settings(listeners={"default": Listener(port=0)}, storage=Storage(data=folder), sys=Sys(interval_s=0))


@asynccontextmanager
async def controlled(folder: Path) -> AsyncIterator[tuple[Node, ControlPeer]]:
    async with running(settings(folder), grace_s=0) as node, control_peer(find_socket(folder)) as peer:
        yield node, peer


def client(node: Node, name: str, **options: object) -> Client:
    return Client(ConnectionOptions.from_url(node.url(), client_id=name, **options))


async def is_banned(node: Node, name: str) -> bool:
    """Whether a client is refused as banned; it is let in otherwise."""
    try:
        async with client(node, name):
            return False
    except RefusedError as error:
        if "0x8A" not in str(error):
            raise
        return True


def run(test: Callable[[], object]) -> None:
    asyncio.run(asyncio.wait_for(test(), 60))  # type: ignore[arg-type]


async def listed(peer: ControlPeer) -> list[BlockInfo]:
    found: list[BlockInfo] = []
    after = None
    while True:
        part = await peer.answer("blocks", BlocksRequest(after), BlockRows)
        found += part.items
        if not part.more:
            return found
        after = part.items[-1]


def test_a_blocked_client_is_out_also_after_a_restart_and_an_unblocked_one_comes_back(folder: Path) -> None:
    async def test() -> None:
        async with controlled(folder) as (node, peer):
            is_in = asyncio.Event()

            async def stay() -> None:
                async with client(node, "press-9"):
                    is_in.set()
                    await asyncio.Event().wait()

            staying = asyncio.create_task(stay())
            await is_in.wait()
            request = BlockRequest((("client", "press-9"),), reason="floods", by="eva")
            assert (await peer.answer("block", request, Blocked)).disconnected == 1
            with pytest.raises(LostError, match="0x98"):
                await staying
            assert await is_banned(node, "press-9")
            assert not await is_banned(node, "press-8")
        async with controlled(folder) as (node, peer):
            assert await is_banned(node, "press-9")
            (kept,) = await listed(peer)
            assert (kept.kind, kept.value, kept.reason, kept.by, kept.until_us) == (
                "client",
                "press-9",
                "floods",
                "eva",
                0,
            )
            assert kept.since_us > 1_700_000_000_000_000
            removed = await peer.answer("unblock", UnblockRequest((("client", "press-9"),)), Unblocked)
            assert removed.blocks == (kept,)
            assert not await is_banned(node, "press-9")
            assert (await peer.refusal("unblock", UnblockRequest((("client", "press-9"),)))).code == NOT_FOUND
        async with controlled(folder) as (node, peer):
            assert not await is_banned(node, "press-9")
            assert await listed(peer) == []

    run(test)


def test_more_blocks_than_an_answer_holds_come_in_parts_the_newest_first(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    many = [Block("client", f"c{number}", since_us=number // 3 + 1) for number in range(LISTED + 50)]
    long = [Block("client", f"{number}" + "x" * (MAX_NAME_BYTES - 1), since_us=9_000) for number in range(8)]
    write_block_file(folder / FILE_NAME, [*many, *long])

    async def test() -> None:
        async with controlled(folder) as (_node, peer):
            first = await peer.answer("blocks", BlocksRequest(), BlockRows)
            assert first.more
            found = await listed(peer)
            assert len(found) == len({one.value for one in found}) == LISTED + 58
            assert [one.since_us for one in found] == sorted((one.since_us for one in found), reverse=True)

    run(test)


def test_what_cannot_be_blocked_is_refused_in_words_and_nothing_is_done(folder: Path) -> None:
    async def test() -> None:
        async with controlled(folder) as (_node, peer):
            for request, said in (
                (BlockRequest((("client", "a"), ("address", "nowhere"))), "'nowhere' is no address"),
                (BlockRequest((("topic", "a"),)), "it is one of client, user, address"),
                (BlockRequest((("client", ""),)), "is empty"),
                (BlockRequest((("client", "a"),), until_us=1), "which has passed"),
                (BlockRequest((("client", "a"),), reason="x" * (MAX_REASON + 1)), f"at most {MAX_REASON}"),
            ):
                refusal = await peer.refusal("block", request)
                assert (refusal.code, said in refusal.detail) == (BAD_REQUEST, True), refusal
            assert await listed(peer) == []
            assert not (folder / FILE_NAME).exists()

    run(test)


def test_a_file_that_becomes_wrong_is_told_by_line_and_the_old_blocks_hold(folder: Path) -> None:
    async def test() -> None:
        async with controlled(folder) as (node, peer):
            await peer.answer("block", BlockRequest((("client", "a"),)), Blocked)
            (folder / FILE_NAME).write_text('{"client": "b"}\n{"client": "c", "untill_us": 3}\n')
            with structlog.testing.capture_logs() as lines:
                outcome = reload(node, lambda: settings(folder))
            assert f"{FILE_NAME}:2: " in outcome.errors["blocks"]
            named = [line for line in lines if f"{FILE_NAME}:2: " in line.get("why", "")]
            assert [line["log_level"] for line in named] == ["error"]
            told = await peer.answer("blocks", BlocksRequest(), BlockRows)
            assert f"{FILE_NAME}:2: " in told.problem
            assert (await peer.answer("stats", Nothing(), Stats)).block_file_problem == told.problem
            assert await is_banned(node, "a")
            assert not await is_banned(node, "b")
            refusal = await peer.refusal("block", BlockRequest((("client", "d"),)))
            assert (refusal.code, ":2: " in refusal.detail) == (NOT_POSSIBLE, True)
            (folder / FILE_NAME).write_text('{"client": "b"}\n')
            assert reload(node, lambda: settings(folder)).errors == {}
            assert (await peer.answer("stats", Nothing(), Stats)).block_file_problem == ""
            assert not await is_banned(node, "a")
            assert await is_banned(node, "b")
        (folder / FILE_NAME).write_text("nonsense\n")
        with pytest.raises(SettingsError, match=f"{FILE_NAME}:1: "):
            async with controlled(folder):
                pass

    run(test)


def test_a_thousand_long_names_are_blocked_in_requests_that_fit(folder: Path) -> None:
    names = [("client", f"{number}-" + "é" * 90) for number in range(1000)]
    batches = list(block_batches(names))
    assert [one for batch in batches for one in batch] == names
    assert len(batches) < 10
    alone = list(block_batches([("client", "x" * BATCH_BYTES), ("client", "y")]))
    assert [len(batch) for batch in alone] == [1, 1]

    async def test() -> None:
        async with controlled(folder) as (_node, peer):
            for batch in [*batches, *alone]:
                await peer.answer("block", BlockRequest(batch, reason="é" * MAX_REASON, by="eva"), Blocked)
            assert len(await listed(peer)) == 1002

    run(test)
