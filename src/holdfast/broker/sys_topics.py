"""`$SYS/broker/…`: what the broker says of itself, under the names that Mosquitto made known."""

from typing import Final

from holdfast.broker.broker import Broker
from holdfast.model.ids import ClientId
from holdfast.model.message import Message

_SECOND_US: Final = 1_000_000


class SysTopics:
    """Publishes the numbers of a broker at intervals, retained; only those that changed."""

    def __init__(self, broker: Broker, version: str, interval_s: float) -> None:
        self._broker: Final = broker
        self._version: Final = version
        self._interval_us: Final = int(interval_s * _SECOND_US)
        self._started_us: Final = broker.monotonic_us()
        self._said: Final[dict[str, str]] = {}

    def start(self) -> None:
        """Begin; an interval of 0 switches them off."""
        if self._interval_us:
            self._round()

    def _round(self) -> None:
        for name, value in self.values().items():
            if self._said.get(name) != value:
                self._said[name] = value
                self._publish(f"$SYS/broker/{name}", value)
        self._broker.deadlines.after(self._interval_us, self._round)

    def values(self) -> dict[str, str]:
        """Every topic below `$SYS/broker/` with its present value."""
        broker = self._broker
        counters = broker.exchange.counters
        connected = sum(client.channel is not None for client in broker.sessions.clients.values())
        total = len(broker.sessions.clients)
        uptime_s = (broker.monotonic_us() - self._started_us) // _SECOND_US
        numbers = {
            "clients/connected": connected,
            "clients/disconnected": total - connected,
            "clients/total": total,
            "clients/expired": broker.sessions.expired,
            "clients/maximum": broker.connections.most,
            "messages/received": counters.packets_in,
            "messages/sent": counters.messages_out,
            "messages/stored": sum(client.queue.count() for client in broker.sessions.clients.values()),
            "publish/messages/received": counters.messages_in,
            "publish/messages/sent": counters.messages_out,
            "publish/messages/dropped": sum(counters.drops.values()),
            "bytes/received": counters.bytes_in,
            "bytes/sent": counters.bytes_out,
            "subscriptions/count": len(broker.exchange.routes),
            "shared_subscriptions/count": len(broker.sessions.groups),
            "retained messages/count": broker.retained.count(),
        }
        texts = {name: str(number) for name, number in numbers.items()}
        return {"version": self._version, "uptime": f"{uptime_s} seconds", **texts}

    def _publish(self, topic: str, value: str) -> None:
        now_us = self._broker.clock_us()
        message = Message(topic.encode(), value.encode(), 0, ClientId(""), now_us, retain=True)
        self._broker.exchange.publish(message)
