"""What the crash runs say about repetitions is right."""

import socket
import subprocess
import sys

from tests.crash.broker_ledger import Arrival, Ledger
from tests.crash.repetitions import (
    BROKEN_OFF,
    READ,
    UNREAD,
    count_repetitions,
    describe_repetitions,
    freeze,
    unread_bytes,
)


def test_the_kernel_tells_what_was_not_read() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            accepted, _address = listening.accept()
            with accepted:
                client.sendall(b"0123456789")
                assert accepted.recv(4) == b"0123"
                assert unread_bytes(port)[client.getsockname()[1]] == 6
                assert len(accepted.recv(10)) == 6
                assert unread_bytes(port)[client.getsockname()[1]] == 0


def test_a_frozen_process_does_nothing() -> None:
    with subprocess.Popen([sys.executable, "-uc", "while True: print(1)"], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        freeze(child.pid)
        child.kill()
    assert child.returncode == -9


def arrive(ledger: Ledger, number: int, fates: list[str | None], *, again: int = 0) -> None:
    """A message comes as often as there are fates of its PUBACKs, and once more; None: it was not acknowledged."""
    received = ledger.subscriptions[0]
    for _again in range(again):
        ledger.sends_again("t", number)
    for fate in [*fates, None]:
        arrival: Arrival = ledger.arrives(received, "t", number, dup=False, packet_id=1, connection=1)
        arrival.acknowledged = fate is not None
        arrival.fate = fate or BROKEN_OFF
        arrival.age_s = 0.004


def test_repetitions_are_told_apart_by_what_the_broker_could_know() -> None:
    ledger = Ledger()
    for _number in range(6):
        ledger.sends("t", 1)
    ledger.subscribes("c", "t", 1)
    arrive(ledger, 1, [])
    arrive(ledger, 2, [READ])
    arrive(ledger, 3, [UNREAD, READ])
    arrive(ledger, 4, [None])
    arrive(ledger, 5, [READ], again=1)
    arrive(ledger, 6, [BROKEN_OFF])
    found = count_repetitions(ledger)
    assert found.acknowledged == {READ: 2, UNREAD: 1, BROKEN_OFF: 1}
    assert (found.unacknowledged, found.published_again, found.total()) == (1, 1, 6)
    assert found.ages_ms == {"c": [4.0, 4.0]}
    assert "PUBACK read by the broker before the kill: 2, 16.67 %" in describe_repetitions(ledger)


def test_both_copies_of_a_message_that_was_published_again_may_be_sent_again() -> None:
    """Each is sent until it is acknowledged, under its packet id: none of that could have been spared."""
    ledger = Ledger()
    ledger.sends("t", 1)
    ledger.sends_again("t", 1)
    received = ledger.subscribes("c", "t", 1)
    for connection in (1, 2):
        for packet_id in (7, 8):
            arrival = ledger.arrives(received, "t", 1, dup=connection > 1, packet_id=packet_id, connection=connection)
            arrival.acknowledged = connection > 1
            arrival.fate = READ
    found = count_repetitions(ledger)
    assert found.acknowledged.total() == 0
    assert (found.unacknowledged, found.published_again) == (2, 1)
