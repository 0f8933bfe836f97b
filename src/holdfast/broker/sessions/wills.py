"""Wills: published when a connection ends without goodbye, at once or after their delay."""

from collections.abc import Callable
from typing import Final

from holdfast.broker.deadlines import Deadline, Deadlines
from holdfast.exchange.drops import DROP_RETAINED
from holdfast.exchange.exchange import Exchange
from holdfast.model.clock import Clock
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.protocol import WILL
from holdfast.model.time import SECOND_US
from holdfast.model.will import StoredWill
from holdfast.wire.packets import Will
from holdfast.wire.properties import Properties, encode_property_list


class Wills:
    """The wills that wait, and the way out for all of them.

    1. A will that waits belongs to a client that is offline.
    """

    def __init__(self, exchange: Exchange, clock: Clock, deadlines: Deadlines, *, max_qos: int) -> None:
        self._intake: Final = exchange.intake
        self._drops: Final = exchange.drops
        self._clock: Final = clock
        self._deadlines: Final = deadlines
        self._max_qos: Final = max_qos
        #: With the end of their delay.
        self._waiting: Final[dict[str, tuple[StoredWill, Deadline]]] = {}

    def leave(self, client_id: str, will: StoredWill, delay_s: int, due: Callable[[], None]) -> None:
        """Publish the will now, or call `due` when its delay has passed."""
        if delay_s == 0:
            self.publish(client_id, will)
            return
        self._waiting[client_id] = (will, self._deadlines.after(delay_s * SECOND_US, due))

    def waiting(self, client_id: str) -> StoredWill | None:
        """The will of this client that waits."""
        waiting = self._waiting.get(client_id)
        return None if waiting is None else waiting[0]

    def publish_waiting(self, client_id: str) -> bool:
        """Publish the will that waits for this client; whether there was one."""
        will = self.drop(client_id)
        if will is not None:
            self.publish(client_id, will)
        return will is not None

    def drop(self, client_id: str) -> StoredWill | None:
        """The client is back in time [MQTT-3.1.3-9]: its will waits no longer."""
        if client_id not in self._waiting:
            return None
        will, deadline = self._waiting.pop(client_id)
        deadline.cancel()
        return will

    def publish(self, client_id: str, will: StoredWill) -> None:
        """Publish a will, as its client would have."""
        now_us = self._clock.wall_us()
        retain = will.retain and self._intake.may_retain(will.topic, will.payload, now_us)
        message = Message(
            will.topic,
            will.payload,
            min(will.qos, self._max_qos),
            ClientId(client_id),
            now_us,
            retain=retain,
            properties=will.properties,
            expires_us=0 if will.expiry_s < 0 else now_us + max(will.expiry_s * SECOND_US, 1),
        )
        if will.retain and not retain:
            self._drops.drop(DROP_RETAINED, client_id, message, now_us, "a will: published, but not retained")
        self._intake.publish(message)


def stored_will(will: Will, mount: bytes) -> StoredWill:
    """A will as it is kept: its properties are those of the message, all but the delay, which is ours."""
    properties = will.properties
    values = {name: value for name, value in properties.present().items() if name != "will_delay_interval"}
    expiry_s = properties.message_expiry_interval
    return StoredWill(
        mount + will.topic.encode(),
        will.payload,
        will.qos,
        retain=will.retain,
        properties=encode_property_list(Properties(**values), WILL),  # type: ignore[arg-type]
        delay_s=properties.will_delay_interval or 0,
        expiry_s=-1 if expiry_s is None else expiry_s,
    )
