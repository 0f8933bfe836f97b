"""aiomqtt."""

import ssl

import aiomqtt
from paho.mqtt.client import MQTT_CLEAN_START_FIRST_ONLY
from paho.mqtt.packettypes import PacketTypes

from tests.mqtt.clients.contract import HOST, WEBSOCKET_PATH, Note, Terms, Way
from tests.mqtt.clients.loop import LoopThread
from tests.mqtt.clients.paho_properties import connect_properties, note_of, properties_of, shut

PROTOCOLS = {
    "3.1": aiomqtt.ProtocolVersion.V31,
    "3.1.1": aiomqtt.ProtocolVersion.V311,
    "5": aiomqtt.ProtocolVersion.V5,
}


class AiomqttClient:
    def __init__(self, loop: LoopThread, way: Way, terms: Terms) -> None:
        self._loop = loop
        self._v5 = way.version == "5"
        self._client = loop.run(self._open(way, terms))

    async def _open(self, way: Way, terms: Terms) -> aiomqtt.Client:
        will = None
        if (note := terms.will) is not None:
            properties = properties_of(note, PacketTypes.WILLMESSAGE) if self._v5 else None
            will = aiomqtt.Will(note.topic, note.payload, note.qos, note.retain, properties)
        client = aiomqtt.Client(
            HOST,
            way.port,
            identifier=terms.client_id,
            protocol=PROTOCOLS[way.version],
            will=will,
            clean_session=None if self._v5 else terms.clean and not terms.keep,
            clean_start=terms.clean if self._v5 else MQTT_CLEAN_START_FIRST_ONLY,
            properties=connect_properties(terms) if self._v5 else None,
            transport="websockets" if way.web else "tcp",
            websocket_path=WEBSOCKET_PATH if way.web else None,
            tls_context=ssl.create_default_context(cafile=str(way.authority)) if way.secure else None,
        )
        return await client.__aenter__()

    def subscribe(self, topic_filter: str, qos: int) -> None:
        async def subscribe() -> None:
            granted = await self._client.subscribe(topic_filter, qos)
            assert [getattr(code, "value", code) for code in granted] == [qos]

        self._loop.run(subscribe())

    def publish(self, note: Note) -> None:
        properties = properties_of(note) if self._v5 else None
        self._loop.run(self._client.publish(note.topic, note.payload, note.qos, note.retain, properties))

    def receive(self) -> Note:
        async def next_message() -> aiomqtt.Message:
            return await anext(aiter(self._client.messages))

        message = self._loop.run(next_message())
        properties = message.properties if self._v5 else None
        return note_of(str(message.topic), message, properties)  # type: ignore[arg-type]

    def disconnect(self) -> None:
        self._loop.run(self._client.__aexit__(None, None, None))

    def drop(self) -> None:
        async def drop() -> None:
            shut(self._client._client)
            try:
                await anext(aiter(self._client.messages))
            except aiomqtt.MqttError as error:
                await self._client.__aexit__(type(error), error, None)
            else:
                raise AssertionError("a message came to a client that is gone")

        self._loop.run(drop())


class Aiomqtt:
    def __init__(self, loop: LoopThread) -> None:
        self._loop = loop

    def connect(self, way: Way, terms: Terms) -> AiomqttClient:
        return AiomqttClient(self._loop, way, terms)
