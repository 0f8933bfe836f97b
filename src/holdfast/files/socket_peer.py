"""Which user is at the other end of a Unix socket, as the kernel says.

A socket file of mode 0600 keeps other users out where modes are kept to; the kernel's word holds everywhere. It is also
how a command knows that no other user has put a socket where the broker's should be.
"""

import os
import socket
import struct
from typing import Final, Protocol

_ROOT: Final = 0
#: Linux tells pid, user and group.
_CREDENTIALS: Final = struct.Struct("iii")


class HasDescriptor(Protocol):
    """A socket, or what an event loop hands out as one."""

    def fileno(self) -> int: ...


def peer_uid(connected: HasDescriptor) -> int | None:
    """The user of the process at the other end; None where the system does not tell."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    # A copy: what uvloop hands out as a socket has no options.
    with socket.socket(fileno=os.dup(connected.fileno())) as copy:
        _pid, uid, _gid = _CREDENTIALS.unpack(copy.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size))
    return int(uid)


def may_connect(uid: int | None, own_uid: int) -> bool:
    """Whether a server lets a user in: its own, and root. Where the system does not tell, the mode has to do."""
    return uid is None or uid in (own_uid, _ROOT)


def is_trusted(uid: int | None, own_uid: int) -> bool:
    """Whether a client trusts the user that serves: its own, and root. Root trusts all: it may do as they do anyway."""
    return own_uid == _ROOT or may_connect(uid, own_uid)
