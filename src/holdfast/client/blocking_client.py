"""The blocking shell of the MQTT client: for programs without an event loop, such as the tasks of Spark.

    with BlockingClient(ConnectionOptions.from_url("mqtt://127.0.0.1", retry_for_s=60)) as client:
        client.publish("plant/meter-7", b"21.5", qos=1)
        client.settle()

1. It works only while one of its methods runs: it connects with the first message, and reads acknowledgements when the
   next ones are published or waited for. A caller that pauses longer than the keep alive calls `ping` in between.
2. Messages leave in the order of `publish`, also when they are sent again.
3. After `settle` each message of QoS 1 and 2 was acknowledged, and those of QoS 0 were read, or lost with a connection.
4. RefusedError is the end. A lost connection is made again, until `retry_for_s` have passed without progress.
"""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from holdfast.client.errors import LostError, RefusedError
from holdfast.client.message import OutgoingMessage, encode_message
from holdfast.client.options import ConnectionOptions, no_answer_error
from holdfast.client.shell import ClientShell, to_subscriptions
from holdfast.client.transport import BlockingTransport, open_blocking
from holdfast.wire.packets import Publish, Suback, Subscription
from holdfast.wire.properties import NO_PROPERTIES, Properties

#: Written to the socket in one piece.
_PIECE_BYTES: Final = 65_536


class BlockingClient(ClientShell):
    """An MQTT client that connects when there is something to send. `close` ends it."""

    def __init__(
        self,
        options: ConnectionOptions,
        *,
        state: Path | None = None,
        open_transport: Callable[[ConnectionOptions], BlockingTransport] = open_blocking,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`state`: a file that keeps what is begun and not completed; see `state_file`."""
        super().__init__(options)
        if state is not None:
            self._open_state(state)
        self._open_transport: Final = open_transport
        self._clock: Final = clock
        self._sleep: Final = sleep
        self._transport: BlockingTransport | None = None

    def __enter__(self) -> "BlockingClient":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    # ---- publishing

    def publish(
        self,
        topic: str,
        payload: bytes,
        qos: int = 0,
        *,
        retain: bool = False,
        properties: Properties = NO_PROPERTIES,
        source_offset: bytes = b"",
    ) -> None:
        """Publish a message, now or together with the next ones. As `Client.publish` in everything else."""
        message = encode_message(topic, payload, qos, self._options.version, retain=retain, properties=properties)
        self.send(message, source_offset)

    def send(self, message: OutgoingMessage, source_offset: bytes = b"") -> None:
        """Publish a message that is encoded already."""
        core = self._core
        if self._transport is None:
            self.connect()
        while message.qos and not core.has_room():
            self._exchange(wait=True)
        core.publish(message, source_offset)
        if core.output_bytes >= _PIECE_BYTES or self._file is not None:
            self._exchange(wait=False)

    def flush(self) -> None:
        """Send what waits to be sent together with the next messages."""
        if self._core.output_bytes:
            self._exchange(wait=False)

    def settle(self) -> None:
        """Wait until the broker has acknowledged every message of QoS 1 and 2, and has read those of QoS 0."""
        self.flush()
        while self._core.unacknowledged:
            self._exchange(wait=True)
        if self._core.unread:
            self.ping()

    def ping(self) -> None:
        """Wait for an answer of the broker."""
        core = self._core
        self.connect()
        core.ping()
        while core.pongs < core.pings:
            self._exchange(wait=True)

    # ---- subscribing

    def subscribe(
        self, filters: str | Sequence[Subscription], qos: int = 0, properties: Properties = NO_PROPERTIES
    ) -> Suback:
        """Subscribe to one filter, or to several, each with its own options. RefusedError names those refused."""
        subscriptions = to_subscriptions(filters, qos)
        self.connect()
        packet_id = self._core.subscribe(subscriptions, properties)
        while packet_id not in self._answers:
            self._exchange(wait=True)
        return self._take_suback(packet_id, subscriptions)

    def receive(self, timeout_s: float | None = None) -> Publish | None:
        """The next message; None if none comes in time."""
        core = self._core
        ends_s = math.inf if timeout_s is None else self._clock() + timeout_s
        core.tick(self._clock(), reading=False)  # nothing was read since the last call
        while not self._received:
            now_s = self._clock()
            if now_s >= ends_s:
                return None
            due_s = ends_s if core.deadline_s is None else min(ends_s, core.deadline_s)
            self._exchange(wait=False, within_s=max(0.0, due_s - now_s), reading=True)
        return self._received.popleft()

    def acknowledge(self, message: Publish) -> None:
        """The caller is done with a message. The broker learns it with the next call."""
        self._core.acknowledge(message)

    # ---- connections

    def connect(self) -> None:
        """Connect, if there is no connection."""
        if self._transport is None:
            self._recovering(self._connect)

    def close(self) -> None:
        """Disconnect without waiting for anything. A state file keeps what is not acknowledged."""
        self._core.disconnect()
        with suppress(LostError, RefusedError):
            if self._transport is not None:
                self._flush(self._transport)
        self._drop_connection()
        if self._file is not None:
            self._file.close()

    def _exchange(self, *, wait: bool, within_s: float = 0.0, reading: bool = False) -> None:
        """Send what there is, and handle what is received within a time; with `wait`, something has to be received."""

        def step() -> None:
            if self._transport is None:
                self._connect()
            transport = self._transport
            assert transport is not None
            self._handle(self._core.tick(self._clock(), reading=reading))
            self._flush(transport)
            if wait or transport.is_readable(within_s):
                self._handle(self._core.receive(transport.read(), self._clock()))
                self._flush(transport)

        self._recovering(step)

    def _recovering(self, step: Callable[[], None]) -> None:
        """Do a step. If the connection is lost in it, make another connection, on which the core sends all again."""
        try:
            step()
            return
        except LostError as lost:
            error = lost
        while True:
            self._drop_connection()
            self._sleep(self._retry.pause_s(error, self._clock(), self._core.progress))
            try:
                self._connect()
                return
            except LostError as lost:
                error = lost

    def _connect(self) -> None:
        options, core = self._options, self._core
        transport = self._transport = self._open_transport(options)
        core.connect(options.password, options.user_name)
        try:
            self._flush(transport)
            while not core.connected:
                self._handle(core.receive(transport.read(), self._clock()))
            self._flush(transport)
        except LostError as error:
            self._drop_connection()
            raise error if core.answered else no_answer_error(error, options) from None
        except BaseException:
            self._drop_connection()
            raise

    def _drop_connection(self) -> None:
        transport, self._transport = self._transport, None
        self._core.connection_lost()
        if transport is not None:
            transport.close()

    def _flush(self, transport: BlockingTransport) -> None:
        output = self._core.take_output()
        if output.records:
            self._store(output, self._take_snapshot(output))
        if output.data:
            try:
                transport.write(output.data)
            except LostError:
                # The broker may have said why.
                while transport.is_readable():
                    self._handle(self._core.receive(transport.read(), self._clock()))
                raise
