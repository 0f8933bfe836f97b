"""Questions of the broker to its history process: repeated while that may help, and ended with a reason."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

import holdfast
from holdfast.durable.lake_page import CONTENT_TYPE, LAKE_PATH, LakeEnd, LakePage, LakeQuestion, encode_page
from holdfast.history.past.export import ExportFile
from holdfast.history.past.server import PastServer
from holdfast.history.reader.reader_pool import ReaderPool
from holdfast.model.errors import HoldfastError, PermanentError, TransientError
from holdfast.node.lake_link import ANSWER_S, AT_ONCE, LakeLink
from holdfast.node.lake_link import PATIENCE_S as DEFAULT_PATIENCE_S
from tests.unit.storage.rocks.log.store import Store

QUESTION = LakeQuestion((b"#",), {0: (1, 9)})
PATIENCE_S = 60.0

Answer = Callable[[], bytes]
Clock = Callable[[], float]


class Answered:
    """A server of the past that gives the test's answers, one after the other; the last one again and again."""

    def __init__(self, folder: Path, path: Path) -> None:
        self.path = path
        self.answers: list[Answer] = [lambda: encode_page([], 8, {0: LakeEnd(8, 3)})]
        self.asked = 0
        self._pool = ReaderPool(folder, 1)
        self._server = PastServer(path, self._pool, files={LAKE_PATH: self._answer})
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def _answer(self, _pool: ReaderPool, params: Mapping[str, list[str]], _gone: Callable[[], bool]) -> ExportFile:
        assert dict(params) == {name: [value] for name, value in QUESTION.parameters()}
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return ExportFile(CONTENT_TYPE, iter((answer(),)))

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._pool.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Answered]:
    store = Store(tmp_path / "data")
    answered = Answered(tmp_path / "data", tmp_path / "s")
    yield answered
    answered.close()
    store.close()


def failing(error: HoldfastError) -> Answer:
    def answer() -> bytes:
        raise error

    return answer


async def outcome(link: LakeLink) -> LakePage | str:
    came: asyncio.Future[LakePage | str] = asyncio.get_running_loop().create_future()
    link.ask(lambda: QUESTION, came.set_result, came.set_result)
    async with asyncio.timeout(PATIENCE_S):
        return await came


def link_to(
    path: Path, patience_s: float = PATIENCE_S, *, answer_s: float = PATIENCE_S, clock: Clock = time.monotonic
) -> LakeLink:
    async def find() -> Path:
        return path

    return LakeLink(find, patience_s=patience_s, answer_s=answer_s, clock=clock)


def test_what_may_help_is_asked_again(server: Answered) -> None:
    server.answers.insert(0, failing(TransientError("the store is busy")))
    link = link_to(server.path)
    found = asyncio.run(outcome(link))
    assert isinstance(found, LakePage)
    assert (found.up_to_us, found.ends) == (8, {0: LakeEnd(8, 3)})
    assert (server.asked, link.counts.pages, link.counts.failures, link.problem()) == (2, 1, 1, "")


def test_what_cannot_help_ends_it_at_once_with_the_reason(server: Answered) -> None:
    server.answers = [failing(PermanentError("it belongs to another broker"))]
    link = link_to(server.path)
    assert asyncio.run(outcome(link)) == "it belongs to another broker"
    assert link.problem() == "it belongs to another broker"
    assert server.asked == 1


def test_an_answer_that_is_no_page_ends_it(server: Answered) -> None:
    server.answers = [lambda: b"something else"]
    assert "no page of a lake" in str(asyncio.run(outcome(link_to(server.path))))


def test_a_process_that_is_away_is_given_up_after_a_while(tmp_path: Path) -> None:
    link = link_to(tmp_path / "nothing", patience_s=0.3)
    assert "does not answer" in str(asyncio.run(outcome(link)))
    assert link.counts.failures >= 2


def test_a_question_that_is_cancelled_is_neither_answered_nor_failed(server: Answered) -> None:
    came: list[object] = []
    gate, entered = threading.Event(), threading.Event()

    def held() -> bytes:
        entered.set()
        assert gate.wait(PATIENCE_S)
        return encode_page([], 8, None)

    server.answers = [held, lambda: encode_page([], 8, {0: LakeEnd(8, 3)})]

    async def run() -> None:
        link = link_to(server.path)
        asking = link.ask(lambda: QUESTION, came.append, came.append)
        await asyncio.to_thread(entered.wait, PATIENCE_S)
        asking.cancel()
        gate.set()
        assert isinstance(await outcome(link), LakePage)
        await link.close()

    asyncio.run(run())
    assert came == []


def test_a_few_questions_are_asked_at_one_time(server: Answered) -> None:
    lock, gate = threading.Lock(), threading.Event()
    running = most = 0

    def counted() -> bytes:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
            if running == AT_ONCE:
                gate.set()
        assert gate.wait(PATIENCE_S)
        with lock:
            running -= 1
        return encode_page([], 8, {0: LakeEnd(8, 3)})

    server.answers = [counted]

    async def run() -> None:
        link = link_to(server.path)
        await asyncio.gather(*(outcome(link) for _index in range(3 * AT_ONCE)))

    asyncio.run(run())
    assert most == AT_ONCE
    assert server.asked == 3 * AT_ONCE


def test_waiting_for_others_costs_a_question_no_patience(server: Answered) -> None:
    gate, entered = threading.Event(), threading.Semaphore(0)
    now_s = 0.0

    def held() -> bytes:
        entered.release()
        assert gate.wait(PATIENCE_S)
        return encode_page([], 8, {0: LakeEnd(8, 3)})

    async def run() -> list[LakePage | str]:
        nonlocal now_s
        link = link_to(server.path, clock=lambda: now_s)
        server.answers = [held]
        first = [asyncio.ensure_future(outcome(link)) for _index in range(AT_ONCE)]
        for _index in first:
            await asyncio.to_thread(entered.acquire)
        busy = failing(TransientError("the store is busy"))
        server.answers = [busy, lambda: encode_page([], 8, {0: LakeEnd(8, 3)})]
        last = asyncio.ensure_future(outcome(link))
        for _iteration in range(3):
            await asyncio.sleep(0)  # until it waits for the others
        now_s += 2 * PATIENCE_S
        gate.set()
        return await asyncio.gather(*first, last)

    found = asyncio.run(run())
    assert [type(one) for one in found] == [LakePage] * (AT_ONCE + 1)
    assert server.asked == AT_ONCE + 2


def test_a_process_that_hangs_is_asked_more_than_once(server: Answered) -> None:
    gate = threading.Event()

    def held() -> bytes:
        gate.wait(PATIENCE_S)
        return b""

    server.answers = [held, lambda: encode_page([], 8, {0: LakeEnd(8, 3)})]
    link = link_to(server.path, answer_s=0.3)
    found = asyncio.run(outcome(link))
    gate.set()
    assert isinstance(found, LakePage)
    assert (server.asked, link.counts.failures) == (2, 1)
    assert ANSWER_S < DEFAULT_PATIENCE_S


def test_a_broker_with_a_lake_loads_no_arrow_and_no_pipeline() -> None:
    program = (
        "import sys, holdfast.node.embedding, holdfast.node.storage, holdfast.node.lake_link\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('pyarrow', 'deltalake', 'pyspark')"
        " or name.startswith('holdfast.pipeline')])"
    )
    source = str(Path(holdfast.__file__).resolve().parents[1])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={"PYTHONPATH": source})
    assert (done.stdout, done.stderr) == ("[]\n", "")
