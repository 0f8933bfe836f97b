"""paho-mqtt, with its network thread."""

import queue
import ssl

from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from tests.mqtt.broker_process import DEADLINE_S
from tests.mqtt.clients.contract import HOST, WEBSOCKET_PATH, Note, Terms, Way
from tests.mqtt.clients.paho_properties import connect_properties, note_of, properties_of, shut

PROTOCOLS = {
    "3.1": MQTTProtocolVersion.MQTTv31,
    "3.1.1": MQTTProtocolVersion.MQTTv311,
    "5": MQTTProtocolVersion.MQTTv5,
}


class Inbox:
    """What the callbacks say. It does not know the client: such a cycle leaves sockets to the garbage collector."""

    def __init__(self) -> None:
        self.notes: queue.Queue[Note] = queue.Queue()
        self.answers: queue.Queue[tuple[str, bool]] = queue.Queue()

    def connected(
        self, client: Client, data: object, flags: ConnectFlags, code: ReasonCode, properties: Properties | None
    ) -> None:
        self.answers.put(("connected", not code.is_failure))

    def subscribed(
        self, client: Client, data: object, mid: int, codes: list[ReasonCode], properties: Properties | None
    ) -> None:
        self.answers.put(("subscribed", not any(code.is_failure for code in codes)))

    def disconnected(
        self, client: Client, data: object, flags: DisconnectFlags, code: ReasonCode, properties: Properties | None
    ) -> None:
        self.answers.put(("disconnected", not code.is_failure))

    def message(self, client: Client, data: object, message: MQTTMessage) -> None:
        self.notes.put(note_of(message.topic, message, message.properties))

    def expect(self, what: str) -> None:
        assert self.answers.get(timeout=DEADLINE_S) == (what, True)


class PahoClient:
    def __init__(self, way: Way, terms: Terms) -> None:
        v5 = way.version == "5"
        self._v5 = v5
        self._inbox = inbox = Inbox()
        self._client = client = Client(
            CallbackAPIVersion.VERSION2,
            client_id=terms.client_id,
            clean_session=None if v5 else terms.clean and not terms.keep,
            protocol=PROTOCOLS[way.version],
            transport="websockets" if way.web else "tcp",
            reconnect_on_failure=False,
        )
        client.on_connect = inbox.connected
        client.on_subscribe = inbox.subscribed
        client.on_disconnect = inbox.disconnected
        client.on_message = inbox.message
        if way.secure:
            client.tls_set_context(ssl.create_default_context(cafile=str(way.authority)))
        if way.web:
            client.ws_set_options(WEBSOCKET_PATH)
        if (will := terms.will) is not None:
            properties = properties_of(will, PacketTypes.WILLMESSAGE) if v5 else None
            client.will_set(will.topic, will.payload, will.qos, will.retain, properties)
        if v5:
            client.connect(HOST, way.port, clean_start=terms.clean, properties=connect_properties(terms))
        else:
            client.connect(HOST, way.port)
        client.loop_start()
        inbox.expect("connected")

    def subscribe(self, topic_filter: str, qos: int) -> None:
        self._client.subscribe(topic_filter, qos)
        self._inbox.expect("subscribed")

    def publish(self, note: Note) -> None:
        properties = properties_of(note) if self._v5 else None
        info = self._client.publish(note.topic, note.payload, note.qos, note.retain, properties)
        info.wait_for_publish(DEADLINE_S)
        assert info.is_published()

    def receive(self) -> Note:
        return self._inbox.notes.get(timeout=DEADLINE_S)

    def disconnect(self) -> None:
        self._client.disconnect()
        self._inbox.expect("disconnected")
        self._client.loop_stop()

    def drop(self) -> None:
        shut(self._client)
        self._client.loop_stop()


class Paho:
    def connect(self, way: Way, terms: Terms) -> PahoClient:
        return PahoClient(way, terms)
