"""Wills: published when a connection ends without goodbye, at once or after their delay."""

from collections.abc import Callable
from typing import Final

from holdfast.broker.deadlines import Deadline, Deadlines
from holdfast.exchange.exchange import Exchange
from holdfast.model.clock import Clock
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.protocol import WILL
from holdfast.wire.packets import Will
from holdfast.wire.properties import Properties, encode_property_list

_SECOND_US: Final = 1_000_000


class _Waiting:
    """A will whose delay runs."""

    def __init__(self, will: Will, mount: bytes, deadline: Deadline) -> None:
        self.will: Final = will
        self.mount: Final = mount
        self.deadline: Final = deadline


class Wills:
    """The wills that wait, and the way out for all of them.

    1. A will that waits belongs to a client that is offline.
    """

    def __init__(self, exchange: Exchange, clock: Clock, deadlines: Deadlines, *, max_qos: int) -> None:
        self._exchange: Final = exchange
        self._clock: Final = clock
        self._deadlines: Final = deadlines
        self._max_qos: Final = max_qos
        self._waiting: Final[dict[str, _Waiting]] = {}

    def leave(self, client_id: str, will: Will, mount: bytes, delay_s: int, due: Callable[[], None]) -> None:
        """Publish the will now, or call `due` when its delay has passed."""
        if delay_s == 0:
            self._publish(client_id, will, mount)
            return
        deadline = self._deadlines.after(delay_s * _SECOND_US, due)
        self._waiting[client_id] = _Waiting(will, mount, deadline)

    def waiting(self, client_id: str) -> tuple[Will | None, bytes]:
        """The will of this client that waits, and what stands in front of its topic."""
        waiting = self._waiting.get(client_id)
        return (None, b"") if waiting is None else (waiting.will, waiting.mount)

    def publish_waiting(self, client_id: str) -> bool:
        """Publish the will that waits for this client; whether there was one."""
        waiting = self._waiting.pop(client_id, None)
        if waiting is None:
            return False
        waiting.deadline.cancel()
        self._publish(client_id, waiting.will, waiting.mount)
        return True

    def drop(self, client_id: str) -> None:
        """The client is back in time [MQTT-3.1.3-9]."""
        waiting = self._waiting.pop(client_id, None)
        if waiting is not None:
            waiting.deadline.cancel()

    def _publish(self, client_id: str, will: Will, mount: bytes) -> None:
        now_us = self._clock.wall_us()
        expiry_s = will.properties.message_expiry_interval
        self._exchange.publish(
            Message(
                mount + will.topic.encode(),
                will.payload,
                min(will.qos, self._max_qos),
                ClientId(client_id),
                now_us,
                retain=will.retain,
                properties=_message_properties(will.properties),
                expires_us=0 if expiry_s is None else now_us + max(expiry_s * _SECOND_US, 1),
            )
        )


def _message_properties(properties: Properties) -> bytes:
    """The properties of a will as those of a message: all but the delay, which is ours."""
    values = {name: value for name, value in properties.present().items() if name != "will_delay_interval"}
    return encode_property_list(Properties(**values), WILL)  # type: ignore[arg-type]
