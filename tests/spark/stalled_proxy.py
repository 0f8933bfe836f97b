"""A proxy in front of a broker that passes on a number of bytes of what clients send, and then no more."""

import socket
import threading
from contextlib import suppress


class StalledProxy:
    """Its clients stay connected when it has stalled, and wait for answers."""

    def __init__(self, port: int, limit_bytes: int) -> None:
        self.stalled = threading.Event()
        self._target = port
        self._left = limit_bytes
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _address = self._listener.accept()
                broker = socket.create_connection(("127.0.0.1", self._target))
                self._sockets += [client, broker]
                threading.Thread(target=self._send, args=(client, broker), daemon=True).start()
                threading.Thread(target=self._answer, args=(broker, client), daemon=True).start()

    def _send(self, client: socket.socket, broker: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(4_096):
                with self._lock:
                    data = data[: self._left]
                    self._left -= len(data)
                broker.sendall(data)
                if not self._left:
                    self.stalled.set()
                    return
            broker.shutdown(socket.SHUT_WR)

    def _answer(self, broker: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := broker.recv(4_096):
                client.sendall(data)
            client.shutdown(socket.SHUT_WR)
