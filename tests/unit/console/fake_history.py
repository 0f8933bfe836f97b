"""A history process on a real Unix socket that answers what a test wants."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec


class FakeHistory:
    """Answers by path: a value as JSON, or a status with a value, or a list of lines that are sent one by one.

    None among the lines waits until the other side is gone, and `...` ends without the last chunk.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.answers: dict[str, Any] = {}
        self.asked: list[tuple[str, list[tuple[str, str]]]] = []
        self.headers: list[str] = []
        self.closed = asyncio.Event()

    async def find(self) -> Path:
        return self.path

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.headers.append(head)
        target = urlsplit(head.split(" ")[1])
        self.asked.append((target.path, parse_qsl(target.query)))
        answer = self.answers.get(target.path, (404, {"error": {"code": "unknown", "detail": "no such path"}}))
        if callable(answer):
            answer = answer(dict(parse_qsl(target.query)))
        if isinstance(answer, list):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n")
            for line in answer:
                if line is None:
                    await reader.read()  # until the other side is gone
                    self.closed.set()
                    break
                if line is ...:
                    break
                data = msgspec.json.encode(line) + b"\n"
                writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
                await writer.drain()
            else:
                writer.write(b"0\r\n\r\n")
        else:
            status, value = answer if isinstance(answer, tuple) else (200, answer)
            data = value if isinstance(value, bytes) else msgspec.json.encode(value)
            retry = "Retry-After: 7\r\n" if status == 503 else ""
            head = (
                f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n{retry}Content-Length: {len(data)}\r\n\r\n"
            )
            writer.write(head.encode() + data)
        writer.close()


@asynccontextmanager
async def fake_history(folder: Path) -> AsyncIterator[FakeHistory]:
    history = FakeHistory(folder / "h")
    server = await asyncio.start_unix_server(history.serve, history.path)
    try:
        yield history
    finally:
        server.close()
