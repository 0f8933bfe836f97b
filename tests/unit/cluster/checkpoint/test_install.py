"""A node that is installed from the checkpoint of another one: pieces, kills, broken bytes, nodes that go away."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from holdfast.cluster.checkpoint.install import FILES_NAME, CheckpointInstaller, ClusterView
from holdfast.cluster.checkpoint.source import IDLE_S, CheckpointSource
from holdfast.model.clock import ManualClock
from holdfast.model.errors import PermanentError, TransientError
from holdfast.records.cluster.checkpoint import (
    CheckpointMessage,
    CheckpointRefused,
    Hold,
    Manifest,
    OpenCheckpoint,
    Piece,
    ReadPiece,
    Said,
    decode_checkpoint_message,
    encode_checkpoint_message,
)
from tests.unit.durable.state_machine.vnode import CLUSTER_ID

PIECE_BYTES = 100
OTHER_CLUSTER = b"o" * 16
#: The node that is installed.
NODE = 3


class KilledError(Exception):
    """The process of the installed node is gone."""


class Source:
    """A live node with files, whose checkpoints can be asked for."""

    def __init__(self, folder: Path, node: int, files: dict[str, bytes]) -> None:
        self.node = node
        self.clock = ManualClock()
        self.files = files
        self.folder = folder / f"checkpoints-{node}"
        self.sequences: Sequence[int] | None = [10, 20]
        self.made = 0
        self.announced: list[Hold] = []
        self.waits = asyncio.Semaphore(0)
        self.cluster_id = CLUSTER_ID
        self.source = CheckpointSource(
            CLUSTER_ID, node, self.folder, self._make, lambda: self.sequences, self._announce, self.clock, self._wait
        )
        self.task: asyncio.Task[None] | None = None
        self.answers: Callable[[bytes, bytes], bytes | None] = lambda _request, answer: answer

    def _make(self, target: Path) -> None:
        self.made += 1
        target.mkdir()
        for name, content in self.files.items():
            (target / name).write_bytes(content)

    async def _announce(self, message: bytes) -> None:
        said = decode_checkpoint_message(message).said
        assert isinstance(said, Hold)
        self.announced.append(said)

    async def _wait(self, _delay_s: float) -> None:
        await self.waits.acquire()

    async def pass_s(self, seconds: float) -> None:
        """A second or more passes at this node."""
        self.clock.advance(int(seconds * 1_000_000))
        self.waits.release()
        for _turn in range(50):
            await asyncio.to_thread(lambda: None)  # files are made and removed in threads

    async def ask(self, request: bytes) -> bytes:
        answer = self.answers(request, await self.source.answer(request))
        if answer is None:
            raise TransientError(f"no answer from node {self.node}")
        return answer

    def checkpoints(self) -> list[Path]:
        return list(self.folder.iterdir()) if self.folder.exists() else []


class Installed:
    """The node that is installed, over several of its lives."""

    def __init__(self, folder: Path, sources: list[Source]) -> None:
        self.staging = folder / "install"
        self.sources = {source.node: source for source in sources}
        self.least = (5, 5)
        self.asked: list[object] = []
        #: Pieces after which its process is killed.
        self.dies_after = -1
        self.looks = 0
        self.on_wait: Callable[[], Awaitable[None]] | None = None

    async def _ask(self, node: int, request: bytes) -> bytes:
        said = decode_checkpoint_message(request).said
        if isinstance(said, ReadPiece):
            if self.dies_after == 0:
                raise KilledError
            self.dies_after -= 1
        self.asked.append(said)
        return await self.sources[node].ask(request)

    async def _look(self) -> ClusterView:
        self.looks += 1
        return ClusterView(list(self.sources), self.least)

    async def _wait(self, _delay_s: float) -> None:
        if self.on_wait is not None:
            await self.on_wait()
        await asyncio.sleep(0.001)

    async def run(self) -> Manifest:
        installer = CheckpointInstaller(
            CLUSTER_ID, NODE, self.staging, self._ask, self._look, ManualClock(), self._wait, PIECE_BYTES
        )
        async with asyncio.timeout(60):
            return await installer.run()

    async def run_until_killed(self, after: int) -> None:
        self.dies_after = after
        with pytest.raises(KilledError):
            await self.run()
        self.dies_after = -1

    def files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (self.staging / FILES_NAME).iterdir()}

    def pieces(self) -> int:
        return sum(isinstance(said, ReadPiece) for said in self.asked)


def some_files(seed: int) -> dict[str, bytes]:
    dice = random.Random(seed)
    sizes = {"000001.sst": 1050, "000002.sst": 100, "CURRENT": 16, "MANIFEST-1": 333, "000003.log": 0}
    return {name: dice.randbytes(size) for name, size in sizes.items()}


#: ⌈1050/100⌉ + 1 + 1 + 4 + 0
PIECES = 17


@asynccontextmanager
async def serving(*sources: Source) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(source.source.run()) for source in sources]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def test_all_files_are_fetched_in_pieces_and_the_checkpoint_is_removed(tmp_path: Path) -> None:
    async def story() -> None:
        source = Source(tmp_path, 1, some_files(1))
        installed = Installed(tmp_path, [source])
        async with serving(source):
            manifest = await installed.run()
            assert installed.files() == source.files
            assert manifest.sequences == (10, 20)
            assert installed.pieces() == PIECES
            assert source.checkpoints() == []
            assert Hold((10, 20)) in source.announced

    asyncio.run(story())


@pytest.mark.parametrize("after", range(PIECES))
def test_a_node_that_was_killed_goes_on_with_the_missing_pieces(tmp_path: Path, after: int) -> None:
    """A13."""

    async def story() -> None:
        source = Source(tmp_path, 1, some_files(1))
        installed = Installed(tmp_path, [source])
        async with serving(source):
            await installed.run_until_killed(after)
            installed.asked.clear()
            await installed.run()
            assert installed.files() == source.files
            assert source.made == 1
            assert installed.pieces() <= PIECES - max(0, after - 3), "at most those that were on their way come again"

    asyncio.run(story())


def test_a_checkpoint_that_is_gone_is_made_and_fetched_again(tmp_path: Path) -> None:
    """A13: a part of an old checkpoint is never completed by a part of another one."""

    async def story() -> None:
        source = Source(tmp_path, 1, some_files(1))
        installed = Installed(tmp_path, [source])
        async with serving(source):
            await installed.run_until_killed(9)
            await source.pass_s(IDLE_S + 1)
            assert source.checkpoints() == []
            source.files = some_files(2)
            await installed.run()
            assert source.made == 2
            assert installed.files() == source.files

    asyncio.run(story())


def test_bytes_that_a_power_loss_has_taken_are_fetched_again(tmp_path: Path) -> None:
    async def story() -> None:
        source = Source(tmp_path, 1, some_files(1))
        installed = Installed(tmp_path, [source])
        async with serving(source):
            await installed.run_until_killed(14)
            whole, part = installed.staging / FILES_NAME / "000001.sst", installed.staging / FILES_NAME / "MANIFEST-1"
            whole.write_bytes(bytes(1050))
            part.write_bytes(bytes(100))
            await installed.run()
            assert installed.files() == source.files

    asyncio.run(story())


@pytest.mark.parametrize("after", [0, 3, 12])
def test_another_node_is_asked_when_one_goes_away_in_the_middle(tmp_path: Path, after: int) -> None:
    async def story() -> None:
        first, second = Source(tmp_path, 1, some_files(1)), Source(tmp_path, 2, some_files(2))
        left = after

        def answer(request: bytes, answer: bytes) -> bytes | None:
            nonlocal left
            if isinstance(decode_checkpoint_message(request).said, ReadPiece):
                left -= 1
            return answer if left >= 0 else None

        first.answers = answer
        installed = Installed(tmp_path, [first, second])
        async with serving(first, second):
            await installed.run()
            assert installed.files() == second.files

    asyncio.run(story())


def test_a_broken_piece_is_asked_for_again(tmp_path: Path) -> None:
    async def story() -> None:
        source = Source(tmp_path, 1, some_files(1))
        broken = 2

        def answer(request: bytes, answer: bytes) -> bytes:
            nonlocal broken
            if isinstance(decode_checkpoint_message(request).said, ReadPiece) and broken:
                broken -= 1
                return answer[:-1] + bytes((answer[-1] ^ 1,))
            return answer

        source.answers = answer
        installed = Installed(tmp_path, [source])
        async with serving(source):
            await installed.run()
            assert installed.files() == source.files
            assert installed.pieces() == PIECES + 2

    asyncio.run(story())


def _other_cluster(_request: bytes, answer: bytes) -> bytes:
    found = decode_checkpoint_message(answer)
    return encode_checkpoint_message(CheckpointMessage(OTHER_CLUSTER, found.node, found.said))


def _other_version(_request: bytes, answer: bytes) -> bytes:
    return b"\x07" + answer[1:]


def _short_pieces(_request: bytes, answer: bytes) -> bytes:
    found = decode_checkpoint_message(answer)
    said = Piece(0, b"") if isinstance(found.said, Piece) else found.said
    return encode_checkpoint_message(CheckpointMessage(found.cluster_id, found.node, said))


def _wrong_file(_request: bytes, answer: bytes) -> bytes:
    """Every piece is whole, and one file has another content than its manifest says."""
    found = decode_checkpoint_message(answer)
    if isinstance(found.said, Manifest):
        files = tuple(type(file)(file.name, file.size_bytes, bytes(32)) for file in found.said.files)
        said = Manifest(found.said.checkpoint, found.said.sequences, files)
        return encode_checkpoint_message(CheckpointMessage(found.cluster_id, found.node, said))
    return answer


def _old_checkpoint(_request: bytes, answer: bytes) -> bytes:
    found = decode_checkpoint_message(answer)
    if isinstance(found.said, Manifest):
        said = Manifest(found.said.checkpoint, (4, 20), found.said.files)
        return encode_checkpoint_message(CheckpointMessage(found.cluster_id, found.node, said))
    return answer


@pytest.mark.parametrize(
    "answers", [_other_cluster, _other_version, _short_pieces, _wrong_file, _old_checkpoint, lambda *_both: b"noise"]
)
def test_a_node_whose_answers_are_wrong_is_left_for_another_one(
    tmp_path: Path, answers: Callable[[bytes, bytes], bytes | None]
) -> None:
    async def story() -> None:
        first, second = Source(tmp_path, 1, some_files(1)), Source(tmp_path, 2, some_files(2))
        first.answers = answers
        installed = Installed(tmp_path, [first, second])
        async with serving(first, second):
            await installed.run()
            assert installed.files() == second.files

    asyncio.run(story())


def test_without_a_member_that_has_caught_up_it_waits(tmp_path: Path) -> None:
    async def story() -> None:
        source = Source(tmp_path, 1, some_files(1))
        source.sequences = None
        installed = Installed(tmp_path, [source])

        async def later() -> None:
            if installed.looks == 3:
                source.sequences = [10, 20]

        installed.on_wait = later
        async with serving(source):
            await installed.run()
            assert installed.looks > 3
            assert installed.files() == source.files

    asyncio.run(story())


# ---- the node that serves


async def said_by(source: Source, said: Said, cluster_id: bytes = CLUSTER_ID) -> Said:
    message = encode_checkpoint_message(CheckpointMessage(cluster_id, NODE, said))
    return decode_checkpoint_message(await source.source.answer(message)).said


def refused(answer: Said) -> str:
    assert isinstance(answer, CheckpointRefused)
    return answer.why


def test_requests_that_cannot_be_answered_are_refused_by_name(tmp_path: Path) -> None:
    async def story() -> None:
        source = Source(tmp_path, 1, some_files(1))
        async with serving(source):
            assert OTHER_CLUSTER.hex() in refused(await said_by(source, OpenCheckpoint((5, 5)), OTHER_CLUSTER))
            assert "3 vnodes, and there are 2" in refused(await said_by(source, OpenCheckpoint((5, 5, 5))))
            assert "no checkpoint" in refused(await said_by(source, ReadPiece(b"c" * 16, 0, 0, 1)))
            assert "no request" in refused(await said_by(source, Hold((1,))))
            found = decode_checkpoint_message(await source.source.answer(b"\x09"))
            assert isinstance(found.said, CheckpointRefused)
            await Installed(tmp_path, [source]).run_until_killed(1)
            manifest = await said_by(source, OpenCheckpoint((5, 5)))
            assert isinstance(manifest, Manifest)
            for piece in ((0, 0, 0), (0, 0, (1 << 20) + 1), (99, 0, 1)):
                assert "bytes of file" in refused(await said_by(source, ReadPiece(manifest.checkpoint, *piece)))

    asyncio.run(story())


def test_a_checkpoint_that_the_logs_do_not_lead_on_from_is_replaced(tmp_path: Path) -> None:
    async def story() -> None:
        source = Source(tmp_path, 1, some_files(1))
        installed = Installed(tmp_path, [source])
        async with serving(source):
            await installed.run_until_killed(5)
            source.sequences, installed.least = [40, 40], (30, 30)
            installed.on_wait = lambda: source.pass_s(1)
            manifest = await installed.run()
            assert (manifest.sequences, source.made) == ((40, 40), 2)
            await source.pass_s(1)
            assert source.checkpoints() == []
            assert source.announced[-1] == Hold((40, 40))

    asyncio.run(story())


def test_the_logs_are_held_for_a_minute_after_the_last_request(tmp_path: Path) -> None:
    """Else what follows the checkpoint could be trimmed before the installed node has joined."""

    async def story() -> None:
        source = Source(tmp_path, 1, some_files(1))
        async with serving(source):
            await Installed(tmp_path, [source]).run()
            await source.pass_s(IDLE_S - 2)
            before = len(source.announced)
            await source.pass_s(1)
            assert len(source.announced) > before
            await source.pass_s(2)
            last = len(source.announced)
            await source.pass_s(1)
            assert len(source.announced) == last

    asyncio.run(story())


def test_a_checkpoint_that_cannot_be_made_is_tried_again_by_the_next_request(tmp_path: Path) -> None:
    async def story() -> None:
        source = Source(tmp_path, 1, some_files(1))
        make, failures = source.source._make, 2

        def fail(target: Path) -> None:
            nonlocal failures
            if failures:
                failures -= 1
                raise PermanentError("no room")
            make(target)

        source.source._make = fail  # type: ignore[misc]
        installed = Installed(tmp_path, [source])
        installed.on_wait = lambda: source.pass_s(1)
        async with serving(source):
            await installed.run()
            assert installed.files() == source.files

    asyncio.run(story())
