"""One connection to a broker, for a worker of Spark: MQTT 5 on a blocking socket, which only publishes.

The wire codec does the work. Here are the socket, the greeting, and which answers may be others later (LostError) and
which may not (RefusedError).
"""

import os
import select
import socket
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Final

from holdfast.model.errors import PeerError
from holdfast.model.protocol import CONNACK, DISCONNECT, MAX_U16, SERVER, V5
from holdfast.model.reasons import (
    ADMINISTRATIVE_ACTION,
    CONNECTION_RATE_EXCEEDED,
    KEEP_ALIVE_TIMEOUT,
    MAXIMUM_CONNECT_TIME,
    MESSAGE_RATE_TOO_HIGH,
    NORMAL_DISCONNECTION,
    QUOTA_EXCEEDED,
    SERVER_BUSY,
    SERVER_SHUTTING_DOWN,
    SERVER_UNAVAILABLE,
    SESSION_TAKEN_OVER,
    SUCCESS,
)
from holdfast.pipeline.write_options import WriteOptions
from holdfast.wire.codec import decode_all, encode
from holdfast.wire.framing import Framer
from holdfast.wire.packets import Connack, Connect, Disconnect, Packet
from holdfast.wire.properties import Properties
from holdfast.wire.refusals import LostError, RefusedError, connect_refusal, in_words

#: Reasons that may be gone after a while.
PASSING: Final = frozenset(
    (
        NORMAL_DISCONNECTION,
        SERVER_UNAVAILABLE,
        SERVER_BUSY,
        SERVER_SHUTTING_DOWN,
        KEEP_ALIVE_TIMEOUT,
        MESSAGE_RATE_TOO_HIGH,
        QUOTA_EXCEEDED,
        ADMINISTRATIVE_ACTION,
        CONNECTION_RATE_EXCEEDED,
        MAXIMUM_CONNECT_TIME,
    )
)
#: Long, because rows may take their time to be computed; a broker forgets a worker whose machine is gone.
KEEP_ALIVE_S: Final = 600
_CHUNK_BYTES: Final = 65_536


class BrokerConnection:
    """Connected. Made by `connect`."""

    def __init__(self, opened: socket.socket, timeout_s: float) -> None:
        self._socket: Final = opened
        self._timeout_s: Final = timeout_s
        self._framer: Final = Framer()
        self._framer.speak(V5)
        self._poll: Final = select.poll()
        self._poll.register(opened, select.POLLIN)
        self._early: list[Packet] = []
        #: What the broker allows.
        self.limits = Properties()

    @property
    def window(self) -> int:
        return self.limits.receive_maximum or MAX_U16

    def greet(self, packet: Connect) -> None:
        self.send(encode(packet, V5))
        while not self._early:
            self._early = self.receive()
        connack = self._early.pop(0)
        if not isinstance(connack, Connack):
            raise LostError(f"the broker answered CONNECT with {type(connack).__name__}")
        if connack.reason in PASSING and connack.reason != SUCCESS:
            raise LostError(f"the broker takes no connection now: {in_words(connack, connack.reason, CONNACK)}")
        if connack.reason != SUCCESS:
            raise connect_refusal(connack, V5)
        self.limits = connack.properties

    def send(self, data: bytes) -> None:
        """Waits while the broker is slow."""
        try:
            self._socket.sendall(data)
        except TimeoutError:
            raise LostError(f"the broker has read nothing for {self._timeout_s:g} s") from None
        except OSError as error:
            # It may have said why.
            self._ending()
            raise LostError(f"the connection broke: {error.strerror or error}") from None

    def has_news(self) -> bool:
        """Whether `receive` would return at once."""
        if self._early or (isinstance(self._socket, ssl.SSLSocket) and self._socket.pending()):
            return True
        return bool(self._poll.poll(0))

    def receive(self) -> list[Packet]:
        """What the next bytes complete, perhaps nothing."""
        if self._early:
            early, self._early = self._early, []
            return early
        try:
            chunk = self._socket.recv(_CHUNK_BYTES)
        except TimeoutError:
            raise LostError(f"the broker has not answered for {self._timeout_s:g} s") from None
        except ssl.SSLError as error:
            raise _tls_refusal(error) from None
        except OSError as error:
            raise LostError(f"the connection broke: {error.strerror or error}") from None
        if not chunk:
            raise LostError("the broker closed the connection without a reason")
        try:
            return decode_all(self._framer, chunk, V5, SERVER)
        except PeerError as error:
            raise LostError(f"the broker sent what is not MQTT: {error.detail}") from None

    def _ending(self) -> None:
        with suppress(LostError):
            while True:
                for packet in self.receive():
                    if isinstance(packet, Disconnect):
                        raise ending(packet)

    def close(self, *, goodbye: bool = False) -> None:
        with suppress(OSError):
            if goodbye:
                self._socket.sendall(encode(Disconnect(), V5))
            self._socket.close()


def ending(packet: Disconnect) -> LostError | RefusedError:
    """The error for a DISCONNECT of the broker."""
    words = in_words(packet, packet.reason, DISCONNECT)
    if packet.reason == SESSION_TAKEN_OVER:
        return RefusedError(f"another attempt of this task has taken over: {words}")
    if packet.reason in PASSING:
        return LostError(f"the broker ended the connection: {words}")
    return RefusedError(f"the broker ended the connection: {words}")


def connect(options: WriteOptions, client_id: str, *, session_expiry_s: int | None = None) -> BrokerConnection:
    """A connection. LostError: perhaps later. RefusedError: not with these options."""
    connection = BrokerConnection(_open_socket(options), options.timeout_s)
    properties = Properties(session_expiry_interval=session_expiry_s)
    packet = Connect(
        V5, client_id, True, KEEP_ALIVE_S, user_name=options.user, password=_password(options), properties=properties
    )
    try:
        connection.greet(packet)
    except BaseException:
        connection.close()
        raise
    return connection


def _open_socket(options: WriteOptions) -> socket.socket:
    context = _tls_context(options) if options.tls else None
    try:
        opened = socket.create_connection((options.host, options.port), options.timeout_s)
    except OSError as error:
        raise LostError(f"cannot connect to {options.place}: {error.strerror or error}") from None
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if context is None:
        return opened
    try:
        return context.wrap_socket(opened, server_hostname=options.host)
    except ssl.SSLError as error:
        opened.close()
        raise _tls_refusal(error) from None
    except OSError as error:
        opened.close()
        raise LostError(f"no TLS with {options.place}: {error.strerror or error}") from None


def _tls_context(options: WriteOptions) -> ssl.SSLContext:
    named = f"caFile {options.ca_file}"
    try:
        context = ssl.create_default_context(cafile=options.ca_file)
        if options.cert_file is not None:
            named = f"certFile {options.cert_file}, keyFile {options.key_file}"
            context.load_cert_chain(options.cert_file, options.key_file)
    except OSError as error:  # SSLError is one
        raise RefusedError(f"option {named}: {error.strerror or error}; the file has to be on every worker") from None
    return context


def _tls_refusal(error: ssl.SSLError) -> LostError | RefusedError:
    if isinstance(error, ssl.SSLCertVerificationError):
        return RefusedError(f"the broker's certificate is not accepted: {error.verify_message}; see the option caFile")
    if "CERTIFICATE" in (error.reason or "") or error.reason == "SSLV3_ALERT_HANDSHAKE_FAILURE":
        return RefusedError(f"the broker does not accept our certificate ({error.reason}); see the option certFile")
    return LostError(f"the connection broke: {error.reason or error}")


def _password(options: WriteOptions) -> bytes | None:
    if options.password_env is not None:
        if options.password_env not in os.environ:
            raise RefusedError(f"option passwordEnv: there is no variable {options.password_env} where the task runs")
        return os.environ[options.password_env].encode()
    if options.password_file is not None:
        try:
            return Path(options.password_file).read_bytes().rstrip(b"\r\n")
        except OSError as error:
            raise RefusedError(f"option passwordFile: {options.password_file}: {error.strerror}") from None
    return None
