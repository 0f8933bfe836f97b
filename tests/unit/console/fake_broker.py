"""A broker on a real control socket that says what a test wants."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from holdfast.control.frames import FrameReader, decode_body, encode_body, encode_frame
from holdfast.control.words import (
    NOT_FOUND,
    OLDEST_VERSION,
    STATS,
    UNKNOWN_WORD,
    VERSION,
    WORDS,
    Answer,
    BlockRows,
    Hello,
    ListenerInfo,
    NodeInfo,
    Nothing,
    Push,
    Refusal,
    Request,
    Stats,
    Watch,
)

NODE = NodeInfo(
    version="1.2.3",
    compiled=True,
    pid=42,
    started_us=1,
    now_us=2,
    state="taking",
    detail="",
    durability="fsync",
    data_folder="/data",
    listeners=(ListenerInfo("default", "tcp", "127.0.0.1", 1883, 3),),
)


class FakeBroker:
    """Answers requests with `answers`, in the order they come; a request without an answer is never answered."""

    def __init__(self) -> None:
        self.answers: dict[str, msgspec.Struct] = {"node": NODE, "watch": Nothing(), "blocks": BlockRows((), False)}
        #: A single node, unless a test says otherwise.
        self.refusals: dict[str, tuple[str, str]] = dict.fromkeys(
            ("cluster", "takeovers"), (NOT_FOUND, "this broker is a single node")
        )
        self.hello = Hello(VERSION, OLDEST_VERSION, "fake broker", tuple(WORDS))
        self.requests: list[tuple[str, msgspec.Struct]] = []
        self.watched = Watch()
        self.connections = 0
        self.writers: list[asyncio.StreamWriter] = []
        self.changed = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        self._tell()
        writer.write(encode_frame(self.hello))
        frames = FrameReader()
        while data := await reader.read(65536):
            for word in frames.feed(data):
                if isinstance(word, Request):
                    self.answer(word, writer)
                    self._tell()
        writer.close()

    def answer(self, request: Request, writer: asyncio.StreamWriter) -> None:
        if request.word not in WORDS:
            writer.write(encode_frame(Refusal(request.id, UNKNOWN_WORD, "unknown")))
            return
        body = decode_body(request.body, WORDS[request.word][0])
        self.requests.append((request.word, body))
        if isinstance(body, Watch):
            self.watched = body
        if request.word in self.refusals:
            writer.write(encode_frame(Refusal(request.id, *self.refusals[request.word])))
        elif request.word in self.answers:
            writer.write(encode_frame(Answer(request.id, encode_body(self.answers[request.word]))))

    def push(self, topic: str, body: msgspec.Struct) -> None:
        for writer in self.writers:
            writer.write(encode_frame(Push(topic, encode_body(body))))

    def push_stats(self, stats: Stats) -> None:
        self.push(STATS, stats)

    def send(self, data: bytes) -> None:
        for writer in self.writers:
            writer.write(data)

    def cut(self) -> None:
        for writer in self.writers:
            writer.close()
        self.writers.clear()

    def _tell(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self.changed.wait()


@asynccontextmanager
async def fake_broker(path: Path) -> AsyncIterator[FakeBroker]:
    broker = FakeBroker()
    server = await asyncio.start_unix_server(broker.serve, path)
    try:
        yield broker
    finally:
        broker.cut()
        server.close()


NO_SUCH_CLIENT = (NOT_FOUND, "there is no such client")
