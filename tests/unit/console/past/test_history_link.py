"""Questions to the history process."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast.console.past.history_link import NUMBERS, HistoryLink, HistoryNumbers
from holdfast.console.problems import ProblemError
from holdfast.model.errors import TransientError
from tests.unit.console.fake_history import fake_history


def test_without_a_past_there_is_404() -> None:
    link = HistoryLink(None)
    assert not link.has_past
    with pytest.raises(ProblemError) as refused:
        asyncio.run(link.get("/zones"))
    assert refused.value.status == 404


def test_a_process_that_does_not_come_up_is_503_with_its_words() -> None:
    async def find() -> Path:
        raise TransientError("not yet")

    with pytest.raises(ProblemError) as refused:
        asyncio.run(HistoryLink(find).get("/zones"))
    assert (refused.value.status, refused.value.detail) == (503, "not yet")


def test_numbers_of_the_process_are_asked_of_one_that_runs_and_start_none(tmp_path: Path) -> None:
    found: list[Path] = []

    async def work() -> None:
        async with fake_history(tmp_path) as history:

            async def find() -> Path:
                found.append(history.path)
                return history.path

            link = HistoryLink(find)
            assert await link.numbers() is None
            assert (found, history.asked) == ([], [])
            history.answers |= {"/zones": {}, NUMBERS: {"busy": 3, "process": {"process_cpu_seconds_total": 1.5}}}
            await link.get("/zones")
            assert await link.numbers() == HistoryNumbers(3, {"process_cpu_seconds_total": 1.5})
            wrongs: tuple[Any, ...] = ((404, {}), b"{", [1])
            for wrong in wrongs:
                history.answers[NUMBERS] = wrong
                assert await link.numbers() is None
        assert await link.numbers() is None, "the process has ended"
        assert (len(found), link.failures) == (1, 0)

    asyncio.run(work())


def test_a_reader_that_leaves_ends_the_question(tmp_path: Path) -> None:
    async def work() -> None:
        async with asyncio.timeout(20), fake_history(tmp_path) as history:
            history.answers["/density"] = [{"total": 1}, None]
            async with HistoryLink(history.find).ask("/density") as answer:
                async for part in answer.parts:
                    assert part == b'{"total":1}\n'
                    break
            await history.closed.wait()

    asyncio.run(work())


@pytest.mark.parametrize("garbage", [b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort", b""])
def test_garbage_and_answers_that_are_cut_off_are_503(tmp_path: Path, garbage: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(garbage)
        writer.close()

    async def find() -> Path:
        return tmp_path / "h"

    async def work() -> None:
        server = await asyncio.start_unix_server(serve, tmp_path / "h")
        async with server:
            with pytest.raises(ProblemError) as refused:
                await HistoryLink(find).get("/zones")
            assert refused.value.status == 503

    asyncio.run(work())


def test_parameters_of_any_text_arrive_as_they_are(tmp_path: Path) -> None:
    async def work() -> None:
        async with fake_history(tmp_path) as history:
            history.answers["/session"] = {}
            for name in ("a b&c=d", "ü/+#?", "\r\nX: y", "\0"):
                await HistoryLink(history.find).get("/session", [("id", name)])
                assert history.asked[-1] == ("/session", [("id", name)])

    asyncio.run(work())
