"""The blocking client of the control socket, against brokers that are away, silent, older or newer."""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast.cli.options.control_client import BrokerAwayError, BrokerRefusedError, ControlClient, NoBrokerError
from holdfast.control.frames import FrameReader, encode_body, encode_frame
from holdfast.control.words import Answer, Hello, Kicked, KickRequest, Nothing, Push, Refusal, Request

Serve = Callable[[Callable[[socket.socket], None]], Path]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves one connection in a thread, as the test says."""
    path = Path(f"/tmp/holdfast-test-{os.getpid()}-{os.urandom(4).hex()}.sock")
    threads: list[threading.Thread] = []
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen()

    def begin(talk: Callable[[socket.socket], None]) -> Path:
        def run() -> None:
            peer, _address = listening.accept()
            with peer, suppress(OSError):
                talk(peer)
                while peer.recv(1000):
                    pass

        threads.append(threading.Thread(target=run))
        threads[0].start()
        return path

    yield begin
    for thread in threads:
        thread.join()
    listening.close()
    path.unlink()


def hello(words: tuple[str, ...] = ("kick",), version: int = 1, oldest: int = 1) -> bytes:
    return encode_frame(Hello(version, oldest, "holdfast 9", words))


def requests(peer: socket.socket) -> Iterator[Request]:
    frames = FrameReader()
    while data := peer.recv(1000):
        for word in frames.feed(data):
            if isinstance(word, Request):
                yield word


def test_an_answer_is_found_behind_pushes(serve: Serve) -> None:
    def talk(peer: socket.socket) -> None:
        peer.sendall(hello())
        for request in requests(peer):
            peer.sendall(encode_frame(Push("stats", encode_body(Nothing()))))
            peer.sendall(encode_frame(Answer(request.id, encode_body(Kicked("10.0.0.1")))))

    client = ControlClient(serve(talk))
    assert client.ask("kick", KickRequest("a"), Kicked) == Kicked("10.0.0.1")
    client.close()


def test_a_refusal_says_why(serve: Serve) -> None:
    def talk(peer: socket.socket) -> None:
        peer.sendall(hello())
        for request in requests(peer):
            peer.sendall(encode_frame(Refusal(request.id, "not_found", "there is none")))

    client = ControlClient(serve(talk))
    with pytest.raises(BrokerRefusedError, match="there is none"):
        client.ask("kick", KickRequest("a"), Kicked)
    client.close()


def test_a_word_that_an_older_broker_does_not_know_is_not_asked(serve: Serve) -> None:
    client = ControlClient(serve(lambda peer: peer.sendall(hello(words=("node",)))))
    with pytest.raises(BrokerRefusedError, match="holdfast 9, does not know 'kick'"):
        client.ask("kick", KickRequest("a"), Kicked)
    client.close()


@pytest.mark.parametrize(("version", "oldest"), [(9, 2), (0, 0)])
def test_a_broker_without_a_version_in_common_is_named(serve: Serve, version: int, oldest: int) -> None:
    path = serve(lambda peer: peer.sendall(hello(version=version, oldest=oldest)))
    with pytest.raises(BrokerRefusedError, match="the broker is holdfast 9"):
        ControlClient(path)


def test_a_broker_that_is_newer_and_still_understands_is_asked(serve: Serve) -> None:
    client = ControlClient(serve(lambda peer: peer.sendall(hello(version=9, oldest=1))))
    assert client.product == "holdfast 9"
    client.close()


def test_a_broker_that_does_not_answer_is_away(serve: Serve) -> None:
    with pytest.raises(BrokerAwayError, match="did not answer in time"):
        ControlClient(serve(lambda _peer: None), timeout_s=0.05)


def test_a_broker_that_leaves_is_away(serve: Serve) -> None:
    def talk(peer: socket.socket) -> None:
        peer.sendall(hello())
        next(requests(peer))
        peer.close()

    client = ControlClient(serve(talk))
    with pytest.raises(BrokerAwayError):
        client.ask("kick", KickRequest("a"), Kicked)
    client.close()


def test_what_is_no_broker_is_said(serve: Serve) -> None:
    path = serve(lambda peer: peer.sendall(encode_frame(Push("a", encode_body(Nothing())))))
    with pytest.raises(BrokerAwayError, match="no broker"):
        ControlClient(path)


def test_a_socket_that_no_broker_serves_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(NoBrokerError):
        ControlClient(tmp_path / "none.sock")


def test_a_socket_of_another_user_is_not_talked_to(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.cli.options.control_client.is_trusted", lambda _uid, _own: False)
    with pytest.raises(BrokerAwayError, match="and not by yours"):
        ControlClient(serve(lambda peer: peer.sendall(hello())))
