"""A peer of the control socket, for tests: says words and reads those of the broker."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from holdfast.control.frames import FrameReader, decode_body, encode_body, encode_frame
from holdfast.control.words import OLDEST_VERSION, VERSION, WORDS, Answer, Hello, Push, Refusal, Request, Word

Body = TypeVar("Body", bound=msgspec.Struct)


class ControlPeer:
    """One connection; what comes is kept until it is asked for."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.pushes: list[Push] = []
        self._frames = FrameReader()
        self._words: list[Word] = []
        self._number = 0

    async def next_word(self) -> Word | None:
        """The next word; None at the end."""
        while not self._words:
            data = await self.reader.read(1 << 16)
            if not data:
                return None
            self._words = self._frames.feed(data)
        return self._words.pop(0)

    async def hello(self, version: int = VERSION, oldest: int = OLDEST_VERSION) -> Hello:
        """Say Hello, and take that of the broker."""
        self.say(Hello(version, oldest, "a test"))
        word = await self.next_word()
        assert isinstance(word, Hello)
        return word

    def say(self, word: Word) -> None:
        self.writer.write(encode_frame(word))

    async def ask(self, word: str, body: msgspec.Struct) -> Answer | Refusal:
        """The answer to a request; pushes that come before it are kept."""
        self._number += 1
        self.say(Request(self._number, word, encode_body(body)))
        while True:
            answer = await self.next_word()
            assert answer is not None, "the connection ended"
            if isinstance(answer, Push):
                self.pushes.append(answer)
                continue
            assert isinstance(answer, Answer | Refusal)
            assert answer.id == self._number
            return answer

    async def answer(self, word: str, body: msgspec.Struct, kind: type[Body]) -> Body:
        """The body of the answer to a request that is not refused."""
        answer = await self.ask(word, body)
        assert isinstance(answer, Answer), answer
        assert WORDS[word][1] is kind
        return decode_body(answer.body, kind)

    async def refusal(self, word: str, body: msgspec.Struct) -> Refusal:
        answer = await self.ask(word, body)
        assert isinstance(answer, Refusal), answer
        return answer

    async def next_push(self) -> Push:
        if self.pushes:
            return self.pushes.pop(0)
        word = await self.next_word()
        assert isinstance(word, Push), word
        return word

    async def is_ended(self) -> bool:
        """Whether the broker ends the connection, whatever it says before."""
        try:
            while await self.next_word() is not None:
                pass
        except ConnectionError:
            pass
        return True


@asynccontextmanager
async def control_peer(path: Path, *, hello: bool = True) -> AsyncIterator[ControlPeer]:
    reader, writer = await asyncio.open_unix_connection(str(path))
    peer = ControlPeer(reader, writer)
    try:
        if hello:
            await peer.hello()
        yield peer
    finally:
        writer.close()
