"""The generator counts right however the network cuts the stream, and notices what is lost or out of order."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator

import pytest

from bench.brokers import processes
from bench.brokers.clients import Subscriber
from bench.brokers.packets import PUBACK, PUBREL, Cycle, Ring, Shape
from bench.brokers.processes import UnavailableError
from bench.brokers.stream import LostError, Stream

RING = 256


class Recorder(Stream):
    """Keeps what it was told."""

    def __init__(self, poll: select.epoll, connected: socket.socket) -> None:
        super().__init__(poll, connected)
        self.packets: list[bytes] = []

    def on_run(self, data: bytearray, first: int, at: int, body: int, step: int, count: int) -> None:
        assert data[at] == first
        assert at < body <= at + step
        self.packets += [bytes(data[begin : begin + step]) for begin in range(at, at + step * count, step)]


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as found:
        yield found


@pytest.mark.parametrize("cut", [1, 2, 3, 79, 80, 1000, 100_000])
def test_runs_hold_every_packet_wherever_the_stream_is_cut(listener: socket.socket, cut: int) -> None:
    small, large = Shape(4, 1), Shape(5, 1, payload_bytes=300)
    expected = [small.publish("b/1", n + 1, 0, n) for n in range(40)]
    expected += [bytes((first, 2, n, 0x32)) for n in range(40) for first in (PUBACK, PUBREL)]
    expected += [large.publish("b/1", n + 1, 0, n) for n in range(40)]
    stream = b"".join(expected)
    poll = select.epoll()
    with socket.create_connection(listener.getsockname()) as sender:
        recorder = Recorder(poll, listener.accept()[0])
        for begin in range(0, len(stream), cut):
            sender.sendall(stream[begin : begin + cut])
            assert poll.poll(5)
            recorder.receive()
        while len(recorder.packets) < len(expected) and poll.poll(5):
            recorder.receive()
        recorder.close()
    poll.close()

    assert recorder.packets == expected


def receive_all(listener: socket.socket, sequences: list[int], sources: list[int]) -> Subscriber:
    """A subscriber that got the messages with these numbers, from one publisher after the other."""
    poll = select.epoll()
    port = int(listener.getsockname()[1])
    subscriber = Subscriber(poll, port, 4, sources, Cycle(0, RING), RING)
    broker = listener.accept()[0]
    shape = Shape(4, 1)
    with broker:
        for place, number in enumerate(sequences):
            broker.sendall(shape.publish("b/1", place + 1, sources[place % len(sources)], number))
        while subscriber.got < len(sequences) and poll.poll(5):
            subscriber.receive()
        answers = broker.recv(1 << 16)
    subscriber.close()
    poll.close()
    assert answers[:4] == bytes((PUBACK, 2, 0, 1))
    return subscriber


@pytest.mark.parametrize("sources", [[0], [0, 1]])
def test_messages_in_order_are_counted(listener: socket.socket, sources: list[int]) -> None:
    sequences = [number // len(sources) for number in range(100)]

    subscriber = receive_all(listener, sequences, sources)

    assert (subscriber.got, subscriber.disorder) == (100, 0)


@pytest.mark.parametrize("sources", [[0], [0, 1]])
def test_a_message_out_of_order_is_noticed(listener: socket.socket, sources: list[int]) -> None:
    sequences = [number // len(sources) for number in range(100)]
    sequences[50], sequences[54] = sequences[54], sequences[50]

    assert receive_all(listener, sequences, sources).disorder > 0


def test_a_lost_message_is_noticed(listener: socket.socket) -> None:
    assert receive_all(listener, [0, 1, 3, 4], [0]).disorder > 0


def test_a_closed_connection_is_an_error(listener: socket.socket) -> None:
    poll = select.epoll()
    sender = socket.create_connection(listener.getsockname())
    recorder = Recorder(poll, listener.accept()[0])
    sender.close()

    assert poll.poll(5)
    with pytest.raises(LostError):
        recorder.receive()
    recorder.close()
    poll.close()


def test_a_ring_comes_round_with_the_same_packets() -> None:
    ring = Ring(Shape(4, 1), "b/1", 7, RING)

    assert len(ring.data) == RING * ring.frame_bytes
    assert bytes(ring.data[: ring.frame_bytes]) == Shape(4, 1).publish("b/1", 1, 7, 0)


def test_a_broker_is_not_mistaken_for_somebody_else_who_answers_at_its_port(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "free_port", lambda: int(listener.getsockname()[1]))
    monkeypatch.setattr(processes, "_START_S", 0.3)

    with pytest.raises(UnavailableError):
        processes.start("sleeper", lambda _folder, _port: ["sleep", "30"], {"PATH": "/usr/bin:/bin"})
