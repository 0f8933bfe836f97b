"""Who is at the other end of a socket, and who may be."""

import os
import socket

from holdfast.files.socket_peer import is_trusted, may_connect, peer_uid


def test_the_user_of_a_peer_is_what_the_system_says() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert peer_uid(one) == os.getuid()


def test_only_the_user_of_the_broker_and_root_may_connect() -> None:
    assert may_connect(1000, 1000)
    assert may_connect(0, 1000)
    assert not may_connect(1001, 1000)
    assert not may_connect(1000, 0)


def test_a_command_trusts_a_broker_of_its_user_and_of_root() -> None:
    assert is_trusted(1000, 1000)
    assert is_trusted(0, 1000)
    assert not is_trusted(1001, 1000)
    assert is_trusted(1001, 0)
