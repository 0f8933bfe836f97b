"""gmqtt, which has no WebSocket and no MQTT 3.1."""

import asyncio
import ssl
from typing import Any

import gmqtt  # type: ignore[import-untyped]
from gmqtt.mqtt.constants import MQTTv50, MQTTv311  # type: ignore[import-untyped]

from tests.mqtt.clients.contract import HOST, Note, Terms, Way
from tests.mqtt.clients.loop import LoopThread
from tests.mqtt.clients.paho_properties import KEPT_S

PROTOCOLS = {"3.1.1": MQTTv311, "5": MQTTv50}
NAMES = {
    "content_type": "content_type",
    "response_topic": "response_topic",
    "correlation_data": "correlation_data",
    "expiry_s": "message_expiry_interval",
}


def _properties(note: Note, *, v5: bool) -> dict[str, Any]:
    if not v5:
        return {}
    given = {theirs: getattr(note, ours) for ours, theirs in NAMES.items() if getattr(note, ours) is not None}
    return {**given, "user_property": list(note.user_properties)} if note.user_properties else given


class GmqttClient:
    def __init__(self, loop: LoopThread, way: Way, terms: Terms) -> None:
        self._loop = loop
        self._v5 = way.version == "5"
        self._notes: asyncio.Queue[Note] = asyncio.Queue()
        self._granted: asyncio.Queue[tuple[int, ...]] = asyncio.Queue()
        self._client = loop.run(self._open(way, terms))

    async def _open(self, way: Way, terms: Terms) -> Any:
        will = None
        if (note := terms.will) is not None:
            will = gmqtt.Message(note.topic, note.payload, note.qos, note.retain, **_properties(note, v5=self._v5))
        clean = terms.clean if self._v5 else terms.clean and not terms.keep
        more = {"session_expiry_interval": KEPT_S} if self._v5 and terms.keep else {}
        client = gmqtt.Client(terms.client_id, clean_session=clean, will_message=will, **more)
        client.set_config({"reconnect_retries": 0})
        client.on_message = self._on_message
        client.on_subscribe = lambda _client, _mid, granted, _properties: self._granted.put_nowait(tuple(granted))
        context = ssl.create_default_context(cafile=str(way.authority)) if way.secure else False
        await client.connect(HOST, way.port, ssl=context, version=PROTOCOLS[way.version])
        return client

    def _on_message(self, client: Any, topic: str, payload: bytes, qos: int, properties: dict[str, Any]) -> int:
        found = {ours: properties.get(theirs, [None])[0] for ours, theirs in NAMES.items()}
        pairs = tuple(tuple(pair) for pair in properties.get("user_property", ()))
        retain = bool(properties["retain"])
        self._notes.put_nowait(Note(topic, bytes(payload), qos, retain, user_properties=pairs, **found))
        return 0

    def subscribe(self, topic_filter: str, qos: int) -> None:
        async def subscribe() -> None:
            self._client.subscribe(topic_filter, qos)
            assert await self._granted.get() == (qos,)

        self._loop.run(subscribe())

    def publish(self, note: Note) -> None:
        async def publish() -> None:
            options = _properties(note, v5=self._v5)
            self._client.publish(note.topic, note.payload, note.qos, note.retain, **options)
            # Its store holds what is not acknowledged yet.
            await self._client._persistent_storage.wait_empty()

        self._loop.run(publish())

    def receive(self) -> Note:
        return self._loop.run(self._notes.get())

    def disconnect(self) -> None:
        async def disconnect() -> None:
            transport = self._client._connection._transport
            try:
                await self._client.disconnect()
            except ssl.SSLError as error:
                # asyncio's TLS fails when bytes of the broker, such as a PUBREL, cross the client's goodbye.
                if error.reason != "APPLICATION_DATA_AFTER_CLOSE_NOTIFY":
                    raise
                transport.abort()

        self._loop.run(disconnect())

    def drop(self) -> None:
        async def drop() -> None:
            self._client._is_active = False  # or it would come back
            self._client._connection._transport.abort()
            await self._client._connection_lost.wait()

        self._loop.run(drop())


class Gmqtt:
    def __init__(self, loop: LoopThread) -> None:
        self._loop = loop

    def connect(self, way: Way, terms: Terms) -> GmqttClient:
        return GmqttClient(self._loop, way, terms)
