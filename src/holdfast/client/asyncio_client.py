"""The asyncio shell of the MQTT client: sockets, the clock, the state file and waiting. The protocol is in `core`.

    async with Client(ConnectionOptions.from_url("mqtt://127.0.0.1", client_id="meter-7")) as client:
        await client.publish("plant/meter-7", b"21.5", qos=1)
        await client.settle()

1. A message counts as published when its last acknowledgement is in; `settle` waits for that.
2. A message counts as received when the caller says so (`acknowledge`). What was not acknowledged comes again to a
   persistent session, so a message is seen twice rather than never.
3. One task reads and one writes beside the caller. If one of them fails, the block is cancelled and raises that error:
   RefusedError, or LostError after `retry_for_s`.
4. With a state file, nothing that needs a durable record leaves before the record is durable.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Final

from holdfast.client.core import WINDOW_MESSAGES
from holdfast.client.errors import Event, LostError
from holdfast.client.message import encode_message
from holdfast.client.options import ConnectionOptions, no_answer_error
from holdfast.client.shell import ClientShell, to_subscriptions
from holdfast.client.transport import AsyncTransport, open_async
from holdfast.topics.filters import TopicFilter, parse_filter
from holdfast.wire.packets import Publish, Suback, Subscription
from holdfast.wire.properties import NO_PROPERTIES, Properties

#: Seconds to wait for the end of QoS 2 handshakes before leaving; the next connection would end them as well.
_HANDSHAKE_S: Final = 2.0
#: Bytes that wait to be written; beyond that, publishers of QoS 0 wait.
_OUTPUT_BYTES: Final = 65_536


class Client(ClientShell):
    """An MQTT client, connected within its `async with` block."""

    def __init__(self, options: ConnectionOptions, *, state: Path | None = None) -> None:
        """`state`: a file that keeps what is begun and not completed; see `state_file`."""
        super().__init__(options)
        self._state_path: Final = state
        self._transport: AsyncTransport | None = None
        #: Set whenever something has happened that a waiter may wait for.
        self._changed: Final = asyncio.Event()
        self._output: Final = asyncio.Event()
        #: Messages of concurrent callers are published in the order of their calls.
        self._publishing: Final = asyncio.Lock()
        self._writing: Final = asyncio.Lock()
        #: Writes that were begun, and that are done.
        self._begun = 0
        self._done = 0
        #: How many callers wait for an answer; then reading goes on although messages pile up.
        self._asking = 0
        self._block: AbstractAsyncContextManager[Client] | None = None

    async def __aenter__(self) -> "Client":
        self._block = self._run()
        return await self._block.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        assert self._block is not None
        return await self._block.__aexit__(kind, error, traceback)

    # ---- publishing

    async def publish(
        self,
        topic: str,
        payload: bytes,
        qos: int = 0,
        *,
        retain: bool = False,
        properties: Properties = NO_PROPERTIES,
        source_offset: bytes = b"",
    ) -> None:
        """Publish a message, as soon as there is room in the window. `settle` waits for acknowledgements.

        With a state file and QoS 1 or 2: returns when the message is durable in it, together with `source_offset`, the
        caller's place in what it reads from. RefusedError if the broker has said that it would not take the message.
        """
        message = encode_message(topic, payload, qos, self._options.version, retain=retain, properties=properties)
        core = self._core
        async with self._publishing:
            if qos:
                await self._until(core.has_room, "PUBLISH")
            else:
                await self._until(lambda: core.connected and core.output_bytes < _OUTPUT_BYTES, "PUBLISH")
            core.publish(message, source_offset)
        self._output.set()
        if self._file is not None and qos:
            number = self._begun + 1
            await self._until(lambda: self._done >= number)

    async def settle(self) -> None:
        """Wait until the broker has acknowledged every message of QoS 1 and 2, and has read those of QoS 0."""
        core = self._core
        await self._until(lambda: not core.unacknowledged, "PUBLISH")
        if core.unread:
            core.ping()
            self._output.set()
            await self._until(lambda: not core.unread, "PINGREQ")

    # ---- subscribing

    async def subscribe(
        self, filters: str | Sequence[Subscription], qos: int = 0, properties: Properties = NO_PROPERTIES
    ) -> Suback:
        """Subscribe to one filter, or to several, each with its own options. RefusedError names those refused."""
        subscriptions = to_subscriptions(filters, qos)
        packet_id = self._core.subscribe(subscriptions, properties)
        await self._wait_for_answer(packet_id, "SUBSCRIBE")
        return self._take_suback(packet_id, subscriptions)

    async def unsubscribe(self, filters: str | Sequence[TopicFilter]) -> None:
        if isinstance(filters, str):
            filters = [parse_filter(filters.encode())]
        packet_id = self._core.unsubscribe(filters)
        await self._wait_for_answer(packet_id, "UNSUBSCRIBE")
        del self._answers[packet_id]

    async def receive(self) -> Publish:
        """The next message."""
        await self._until(lambda: bool(self._received))
        self._changed.set()
        return self._received.popleft()

    def acknowledge(self, message: Publish) -> None:
        """The caller is done with a message: the broker need not send it again."""
        self._core.acknowledge(message)
        self._output.set()

    async def _wait_for_answer(self, packet_id: int, question: str) -> None:
        self._output.set()
        await self._until(lambda: packet_id in self._answers, question)

    # ---- the life of the client

    @asynccontextmanager
    async def _run(self) -> AsyncIterator["Client"]:
        try:
            if self._state_path is not None:
                self._open_state(self._state_path)
            try:
                await self._connect()
            except LostError as error:
                await self._connect_again(error)
            async with asyncio.TaskGroup() as tasks:
                running = [tasks.create_task(self._read()), tasks.create_task(self._write())]
                try:
                    yield self
                    await self._finish_handshakes()
                finally:
                    for task in running:
                        task.cancel()
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        finally:
            await self._close()

    async def _read(self) -> None:
        while True:
            try:
                await self._read_connection()
            except LostError as error:
                await self._connect_again(error)

    async def _read_connection(self) -> None:
        core, transport = self._core, self._transport
        assert transport is not None
        loop = asyncio.get_running_loop()
        while True:
            reading = not self._is_full()
            self._handle(core.tick(loop.time(), reading=reading))
            with suppress(TimeoutError):
                async with asyncio.timeout_at(core.deadline_s):
                    if reading:
                        data = await transport.read()
                        self._handle(core.receive(data, loop.time()))
                    else:
                        # The caller is slow. Not reading slows down the broker in turn.
                        await self._until(lambda: not self._is_full())

    async def _write(self) -> None:
        while True:
            await self._output.wait()
            self._output.clear()
            await self._flush()

    async def _flush(self) -> None:
        async with self._writing:
            transport = self._transport
            output = self._core.take_output()
            self._begun += 1
            if output.records:
                storing = asyncio.create_task(asyncio.to_thread(self._store, output, self._take_snapshot(output)))
                try:
                    await asyncio.shield(storing)
                finally:
                    await storing  # a cancelled client does not leave a thread that writes to its file
            self._done = self._begun
            # Another connection may have been made meanwhile, on which other things are to be sent.
            if output.data and transport is not None and transport is self._transport:
                transport.write(output.data)
                await transport.drain()
        self._changed.set()

    async def _connect(self) -> None:
        options, core = self._options, self._core
        transport = self._transport = await open_async(options)
        core.connect(options.password, options.user_name)
        try:
            await self._flush()
            async with asyncio.timeout(options.timeout_s):
                while not core.connected:
                    data = await transport.read()
                    self._handle(core.receive(data, asyncio.get_running_loop().time()))
        except TimeoutError:
            raise LostError(f"the broker did not answer CONNECT within {options.timeout_s:g} s") from None
        except LostError as error:
            raise error if core.answered else no_answer_error(error, options) from None

    async def _connect_again(self, error: LostError) -> None:
        loop = asyncio.get_running_loop()
        while True:
            pause_s = self._retry.pause_s(error, loop.time(), self._core.progress)
            await self._drop_connection()
            await asyncio.sleep(pause_s)
            try:
                await self._connect()
            except LostError as another:
                error = another
            else:
                return

    async def _drop_connection(self) -> None:
        transport, self._transport = self._transport, None
        self._core.connection_lost()
        if transport is not None:
            await transport.close()

    async def _close(self) -> None:
        try:
            self._core.disconnect()
            await self._flush()
            await self._drop_connection()
        finally:
            if self._file is not None:
                self._file.close()

    def _handle(self, events: list[Event]) -> None:
        super()._handle(events)
        self._changed.set()
        self._output.set()

    def _is_full(self) -> bool:
        return len(self._received) >= WINDOW_MESSAGES and not self._asking

    async def _finish_handshakes(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_HANDSHAKE_S):
                await self._until(lambda: not self._core.connected or not self._core.state.received, "PUBREC")

    async def _until(self, condition: Callable[[], bool], question: str | None = None) -> None:
        """Wait for a condition. With a `question` to the broker, an answer has to come in time."""
        if condition():
            return
        limit_s = self._options.timeout_s if question and not self._options.retry_for_s else None
        self._asking += question is not None
        self._changed.set()  # reading may go on
        try:
            while not condition():
                self._changed.clear()
                async with asyncio.timeout(limit_s):
                    await self._changed.wait()
        except TimeoutError:
            raise LostError(f"the broker did not answer {question} within {limit_s:g} s") from None
        finally:
            self._asking -= question is not None
