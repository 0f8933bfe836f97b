"""How commands ask a running broker: options that say which, and a blocking client of its control socket.

A command that finds no broker says so in one line and exits with status 1.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, TypeVar

import msgspec
import typer

import holdfast
from holdfast.cli.commands import FAILED, exit_on, fail
from holdfast.cli.options.settings import ConfigFile
from holdfast.control.frames import FrameReader, decode_body, encode_body, encode_frame
from holdfast.control.words import OLDEST_VERSION, VERSION, Answer, Hello, Push, Refusal, Request, Word
from holdfast.files.socket_path import find_socket, socket_path
from holdfast.files.socket_peer import is_trusted, peer_uid
from holdfast.model.errors import PermanentError, SettingsError, TransientError
from holdfast.node.settings.loader import load
from holdfast.node.settings.sources import Flags

#: For each answer. A broker whose loop stands still for longer is in trouble.
_TIMEOUT_S: Final = 10.0
_READ_BYTES: Final = 1 << 16

Body = TypeVar("Body", bound=msgspec.Struct)


class BrokerAwayError(TransientError):
    """No broker answers."""


class NoBrokerError(BrokerAwayError):
    """No broker serves a socket."""


class BrokerRefusedError(PermanentError):
    """The broker did nothing, and says why."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code: Final = code


class ControlClient:
    """A connection to the control socket of a broker."""

    def __init__(self, path: Path, timeout_s: float = _TIMEOUT_S) -> None:
        """NoBrokerError: no broker is there. BrokerAwayError: it is silent. BrokerRefusedError: another version."""
        self._path: Final = path
        self._socket: Final = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout_s)
        self._frames: Final = FrameReader()
        self._words: list[Word] = []
        self._number = 0
        try:
            hello = self._greet()
        except BaseException:
            self._socket.close()
            raise
        #: What the broker calls itself, and the words that it knows.
        self.product: Final = hello.product
        self._known: Final = hello.words

    def _greet(self) -> Hello:
        try:
            self._socket.connect(str(self._path))
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError) as error:
            raise NoBrokerError(f"no broker serves {self._path}") from error
        except OSError as error:
            raise BrokerAwayError(f"{self._path} cannot be used: {error.strerror or error}") from error
        uid = peer_uid(self._socket)
        if not is_trusted(uid, os.getuid()):
            raise BrokerAwayError(
                f"{self._path} is served by user {uid}, and not by yours; ask as that user, or as root"
            )
        with suppress(BrokerAwayError):  # it may have said why it leaves
            self._send(Hello(VERSION, OLDEST_VERSION, f"holdfast {holdfast.__version__}"))
        hello = self._next()
        if not isinstance(hello, Hello):
            raise BrokerAwayError(f"what serves {self._path} is no broker")
        if max(hello.oldest, OLDEST_VERSION) > min(hello.version, VERSION):
            raise BrokerRefusedError(
                "version",
                f"the broker is {hello.product}, this is {holdfast.__version__}; use the same version of both",
            )
        return hello

    def ask(self, word: str, body: msgspec.Struct, kind: type[Body]) -> Body:
        """The answer to a request. BrokerRefusedError: nothing was done. BrokerAwayError: it is not known."""
        if word not in self._known:
            raise BrokerRefusedError("unknown_word", f"the broker, {self.product}, does not know {word!r}; update it")
        self._number += 1
        self._send(Request(self._number, word, encode_body(body)))
        while True:
            answer = self._next()
            if isinstance(answer, Answer):
                return decode_body(answer.body, kind)
            if isinstance(answer, Refusal):
                raise BrokerRefusedError(answer.code, answer.detail)

    def pushes(self) -> Iterator[Push]:
        """What the broker tells of itself, after `watch`."""
        while True:
            word = self._next()
            if isinstance(word, Push):
                yield word

    def close(self) -> None:
        self._socket.close()

    def _send(self, word: Word) -> None:
        try:
            self._socket.sendall(encode_frame(word))
        except OSError as error:
            raise self._lost(error) from error

    def _next(self) -> Word:
        while not self._words:
            try:
                data = self._socket.recv(_READ_BYTES)
            except OSError as error:
                raise self._lost(error) from error
            if not data:
                raise BrokerAwayError("the broker closed the connection; its log says why")
            self._words = self._frames.feed(data)
        return self._words.pop(0)

    @staticmethod
    def _lost(error: OSError) -> BrokerAwayError:
        why = "it did not answer in time" if isinstance(error, TimeoutError) else error.strerror or str(error)
        return BrokerAwayError(f"the broker is not there any more: {why}")


@dataclass(frozen=True, kw_only=True)
class RunningBroker:
    """Which running broker: by its data folder."""

    data: Annotated[
        Path | None, typer.Option(help="The data folder of the broker; without it the one of the settings.")
    ] = None
    config: ConfigFile = None

    def folder(self) -> Path:
        if self.data is not None:
            return self.data
        with exit_on(SettingsError):
            return load(Flags(config=self.config), rules=False).storage.data

    @contextmanager
    def connected(self) -> Iterator[ControlClient]:
        """A connection to the broker for the length of the block; without a broker, or an answer, the program ends."""
        with self.connected_if_running() as client:
            if client is None:
                advice = "name its folder with --data, or start it with `holdfast serve`"
                fail(f"no broker runs on {self.folder()}; {advice}", FAILED)
            yield client

    @contextmanager
    def connected_if_running(self) -> Iterator[ControlClient | None]:
        """The same, and None without a broker."""
        folder = self.folder()
        with exit_on(BrokerAwayError, BrokerRefusedError, code=FAILED):
            client = self._connect(folder)
            try:
                yield client
            finally:
                if client is not None:
                    client.close()

    @staticmethod
    def _connect(folder: Path) -> ControlClient | None:
        # A broker that keeps nothing on disk is known by the folder of its settings all the same.
        for path in (find_socket(folder), socket_path(folder, on_disk=False)):
            with suppress(NoBrokerError):
                return ControlClient(path)
        return None
