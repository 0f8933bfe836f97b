"""`$SYS/broker/…`: what the broker says of itself, under the names that Mosquitto made known."""

import math
from collections.abc import Callable, Mapping
from typing import Final

from holdfast.broker.broker import Broker
from holdfast.broker.deadlines import Deadline
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.time import MINUTE_US, SECOND_US

#: Name → length. The names are Mosquitto's.
_WINDOWS_US: Final[Mapping[str, int]] = {f"{minutes}min": minutes * MINUTE_US for minutes in (1, 5, 15)}


class LoadAverages:
    """How much happens per minute, over the last 1, 5 and 15 minutes, of totals that only grow. All are 0 at the start.

    Exponentially weighted, like the load of a Unix machine: what happened t ago counts by e^(-t/window). Three numbers
    per total are kept, whatever the traffic. Updates may come at any interval, because each is weighted by the time
    since the one before.
    """

    def __init__(self, totals: Mapping[str, int], now_us: int) -> None:
        self._totals = dict(totals)
        self._now_us = now_us
        self._averages: Final = {f"{name}/{window}": 0.0 for name in totals for window in _WINDOWS_US}

    def update(self, totals: Mapping[str, int], now_us: int) -> Mapping[str, float]:
        """Take the totals as of now; the averages, by `<name>/<window>`, per minute."""
        elapsed_us = now_us - self._now_us
        if elapsed_us > 0:
            for name, total in totals.items():
                per_minute = (total - self._totals[name]) * MINUTE_US / elapsed_us
                for window, window_us in _WINDOWS_US.items():
                    key = f"{name}/{window}"
                    before = self._averages[key]
                    self._averages[key] = per_minute + (before - per_minute) * math.exp(-elapsed_us / window_us)
            self._totals = dict(totals)
            self._now_us = now_us
        return self._averages


class SysTopics:
    """Publishes the numbers of a broker at intervals, retained; only those that changed."""

    def __init__(
        self,
        broker: Broker,
        version: str,
        interval_s: float,
        more: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        """`more` gives further topics, as `values` does."""
        self._more: Final = more
        self._broker: Final = broker
        self._version: Final = version
        self._interval_us = int(interval_s * SECOND_US)
        self._started_us: Final = broker.clock.monotonic_us()
        self._said: Final[dict[str, str]] = {}
        self._loads: Final = LoadAverages(self._totals(), self._started_us)
        self._next: Deadline | None = None

    def start(self) -> None:
        """Begin; an interval of 0 switches them off."""
        if self._interval_us:
            self._round()

    def change_interval(self, interval_s: float) -> None:
        """From now on, have a round so often; the first of them at once."""
        if self._next is not None:
            self._next.cancel()
            self._next = None
        self._interval_us = int(interval_s * SECOND_US)
        self.start()

    def _round(self) -> None:
        for name, value in self.values().items():
            if self._said.get(name) != value:
                self._said[name] = value
                self._publish(f"$SYS/broker/{name}", value)
        self._next = self._broker.deadlines.after(self._interval_us, self._round)

    def values(self) -> dict[str, str]:
        """Every topic below `$SYS/broker/` with its present value."""
        broker = self._broker
        counters = broker.exchange.counters
        connected = sum(client.channel is not None for client in broker.sessions.clients.values())
        total = len(broker.sessions.clients)
        now_us = broker.clock.monotonic_us()
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
            "shared_subscriptions/count": broker.sessions.subscriptions.shared.count(),
            "shared_subscriptions/stolen": counters.stolen,
            "handshakes/failed": sum(counters.handshakes_failed.values()),
            "retained messages/count": broker.retained.count(),
        }
        syncs = broker.sync_counts
        if syncs is not None:
            numbers["storage/syncs/loop"] = syncs.on_loop
            numbers["storage/syncs/thread"] = syncs.on_thread
            numbers["storage/syncs/longest_on_loop_us"] = syncs.longest_on_loop_us
        segments = broker.segment_counts
        if segments is not None:
            numbers["storage/segments/made"] = segments.made
            numbers["storage/segments/waiting"] = segments.waiting
        if broker.lake is not None:
            lake = broker.lake.counts
            numbers["replays/lake/reading"] = lake.reading
            numbers["replays/lake/messages"] = lake.messages
            numbers["replays/lake/failures"] = lake.failures
            numbers["replays/lake/given_up"] = lake.given_up
        texts = {name: str(number) for name, number in numbers.items()}
        loads = self._loads.update(self._totals(), now_us)
        if broker.lake is not None:
            texts["replays/lake/state"] = "away" if broker.lake.problem() else "here"
        texts |= {f"load/{name}": f"{average:.2f}" for name, average in loads.items()}
        external = broker.exchange.external
        for backend in external.backends.values():
            texts[f"queues/{backend.name}/state"] = "away" if backend.away else "here"
        if external.backends:
            texts["queues/waiting"] = str(external.waiting)
        uptime_s = (now_us - self._started_us) // SECOND_US
        return {"version": self._version, "uptime": f"{uptime_s} seconds", **texts, **self._more()}

    def _totals(self) -> dict[str, int]:
        """What load averages are made of, by the name below `load/`."""
        counters = self._broker.exchange.counters
        return {
            "messages/received": counters.packets_in,
            "messages/sent": counters.messages_out,
            "publish/received": counters.messages_in,
            "publish/sent": counters.messages_out,
            "publish/dropped": sum(counters.drops.values()),
            "bytes/received": counters.bytes_in,
            "bytes/sent": counters.bytes_out,
            "sockets": counters.sockets,
            "connections": counters.connects,
        }

    def _publish(self, topic: str, value: str) -> None:
        now_us = self._broker.clock.wall_us()
        message = Message(topic.encode(), value.encode(), 0, ClientId(""), now_us, retain=True)
        self._broker.exchange.intake.publish(message)
