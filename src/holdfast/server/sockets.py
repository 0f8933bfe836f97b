"""Listening sockets: a host and a port become sockets that accept, or an error that says what to do.

It knows addresses and the kernel, nothing of protocols or settings.
"""

import asyncio
import errno
import socket
from typing import Final

from holdfast.model.errors import SettingsError

#: Connections the kernel completes and keeps for us until they are accepted. A fleet that comes back after an
#: outage connects all at once, and what does not fit is dropped and tried again by the client a second or more
#: later. Linux caps it at net.core.somaxconn, which is 4096 by default.
BACKLOG: Final = 4096

#: The most connections accepted per loop iteration, so that a storm does not delay other clients.
ACCEPTS_PER_ITERATION: Final = 128

#: Seconds without accepting after a failure; asyncio's own servers pause as long.
PAUSE_S: Final = 1.0

#: Names that mean one address of each family; a resolver may know one of them only, or another machine.
_BOTH_FAMILIES: Final = {"localhost": ("127.0.0.1", "::1"), "*": ("0.0.0.0", "::")}

#: Errors of an address family that this machine lacks, which are ignored if the other one works.
_NO_SUCH_FAMILY: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)

#: Attempts to find a port that is free in both families.
_ATTEMPTS: Final = 20

_REMEDIES: Final = {
    errno.EADDRINUSE: "it is in use; stop the other program or listener, or choose another port",
    errno.EACCES: "not allowed; choose a port above 1023, or grant the process CAP_NET_BIND_SERVICE",
    errno.EADDRNOTAVAIL: "this machine has no such address; choose one that it has, or * for all",
    errno.EAFNOSUPPORT: "this machine has no such address family; choose another host",
}


async def listen(host: str, port: int) -> list[socket.socket]:
    """Listening sockets for every address of `host`, all on one port; port 0 picks a free one.

    `::` means every IPv6 address, `0.0.0.0` every IPv4 address, `*` both.
    """
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        addresses = await _resolve(host)
    except OSError as error:
        raise SettingsError(f"{where}: the host is unknown ({error.strerror}); give an address or *") from error
    for attempt in range(_ATTEMPTS):
        try:
            return _listen_all(addresses, port)
        except OSError as error:
            # A picked port may be free in one family and taken in the other.
            if port or error.errno != errno.EADDRINUSE or attempt == _ATTEMPTS - 1:
                remedy = _REMEDIES.get(error.errno or 0, f"{error.strerror}; choose another host or port")
                raise SettingsError(f"{where}: {remedy}") from error
    raise AssertionError("the last attempt returns or raises")


async def _resolve(host: str) -> list[tuple[socket.AddressFamily, str]]:
    names = _BOTH_FAMILIES.get(host, (host,))
    loop = asyncio.get_running_loop()
    found: dict[tuple[socket.AddressFamily, str], None] = {}
    for name in names:
        for family, _, _, _, address in await loop.getaddrinfo(name, None, type=socket.SOCK_STREAM):
            found[family, str(address[0])] = None
    return list(found)


def _listen_all(addresses: list[tuple[socket.AddressFamily, str]], port: int) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    missing: OSError | None = None
    try:
        for family, address in addresses:
            try:
                sockets.append(_listen_one(family, address, port))
            except OSError as error:
                if error.errno not in _NO_SUCH_FAMILY:
                    raise
                missing = error
            else:
                port = sockets[-1].getsockname()[1]
        if missing is not None and not sockets:
            raise missing
    except OSError:
        for one in sockets:
            one.close()
        raise
    return sockets


def _listen_one(family: socket.AddressFamily, address: str, port: int) -> socket.socket:
    # The protocol is spelled out because asyncio sets TCP_NODELAY only where it sees it.
    one = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        one.setblocking(False)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Accepted sockets inherit it: a client may ask for no keep-alive, and its machine may vanish.
        one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # Inherited as well: writes are whole already, so Nagle's algorithm would only delay them.
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        one.bind((address, port))
        # Two sockets may bind the same port while neither listens, so only `listen` proves that the port is ours.
        one.listen(BACKLOG)
    except OSError:
        one.close()
        raise
    return one
