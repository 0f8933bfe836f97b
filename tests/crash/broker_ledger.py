"""What the clients did and saw, and whether it is what the broker promises.

Every topic has one publisher, which numbers its messages from 1, and one QoS. That makes the rules short:

1. Nothing acknowledged is missing at a subscriber whose SUBACK came before the message was first sent.
2. QoS 2 at both ends: each number is the successor of the one before. So nothing comes twice, and in order.
3. QoS 2 at the publisher, 1 at the subscriber: a number is at most the successor of the one before. So first copies
   are in order, and what comes again is a stretch that goes on where the first copies ended, or is cut short by the
   next repetition. QoS 1 at the publisher: a number is at most the successor of the greatest so far, since what the
   publisher sent again is stored again, and may be repeated in its turn.
4. What comes again says so: DUP, unless it is the publisher that sent it again. Asked for only where every client was
   back between two deaths: of a crash before the last one the broker does not know.
5. In a group a message of QoS 2 reaches one member, once.
6. Nothing that was acknowledged before a SUBSCRIBE was sent comes through that subscription, unless it is retained.
"""

import asyncio
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from holdfast.topics.filters import parse_filter


@dataclass
class Sent:
    """The messages of one topic."""

    qos: int
    #: When each number was first sent and when acknowledged, 0 if not yet; the first stands at index 1.
    sent_at: list[int] = field(default_factory=lambda: [0])
    acknowledged_at: list[int] = field(default_factory=lambda: [0])
    #: How often the publisher has sent a number again: QoS 1 is stored each time.
    sent_again: Counter[int] = field(default_factory=Counter)

    def last_acknowledged(self) -> int:
        return max((number for number, at in enumerate(self.acknowledged_at) if at), default=0)


@dataclass
class Arrival:
    number: int
    dup: bool
    at: int
    #: Under which packet id, on which connection of its client.
    packet_id: int
    connection: int
    #: Whether the subscriber has acknowledged this copy, on the connection that it came by.
    acknowledged: bool = False
    #: What became of its PUBACK (`repetitions.py`), and how long before the death of the broker it was sent.
    fate: str = "broken off"
    age_s: float = 0.0

    def __str__(self) -> str:
        return f"{self.number}{' DUP' if self.dup else ''} (id {self.packet_id}, connection {self.connection})"


@dataclass
class Received:
    """What came through one subscription of one client."""

    client: str
    filter: str
    qos: int
    #: When SUBSCRIBE was first sent, and SUBACK came.
    asked_at: int = 0
    granted_at: int = 0
    topics: dict[str, list[Arrival]] = field(default_factory=lambda: defaultdict(list))

    def shared(self) -> bool:
        return self.filter.startswith("$share/")

    def matches(self, topic: str) -> bool:
        return parse_filter(self.filter.encode()).matches(topic.encode())


class Ledger:
    """One clock for everything: what happened before what."""

    def __init__(self) -> None:
        self.at = 0
        self.sent: dict[str, Sent] = {}
        self.subscriptions: list[Received] = []
        #: What a client saw that no broker may do.
        self.violations: list[str] = []
        self.acknowledged = 0
        self.delivered = 0
        #: How often the broker has died.
        self.deaths = 0
        self._awaited = 0
        self._reached = asyncio.Event()

    def tick(self) -> int:
        self.at += 1
        if self.at >= self._awaited:
            self._reached.set()
        return self.at

    async def reaches(self, at: int) -> None:
        """Wait for so many events. One may wait at a time."""
        self._awaited = at
        self._reached.clear()
        if self.at < at:
            await self._reached.wait()

    def wrong(self, what: str) -> None:
        self.violations.append(f"at {self.at}: {what}")

    # ---- publishers

    def sends(self, topic: str, qos: int) -> int:
        """The number of the next message of a topic, which is sent now."""
        sent = self.sent.setdefault(topic, Sent(qos))
        sent.sent_at.append(self.tick())
        sent.acknowledged_at.append(0)
        return len(sent.sent_at) - 1

    def sends_again(self, topic: str, number: int) -> None:
        self.sent[topic].sent_again[number] += 1

    def acknowledges(self, topic: str, number: int) -> None:
        self.acknowledged += 1
        self.sent[topic].acknowledged_at[number] = self.tick()

    # ---- subscribers

    def subscribes(self, client: str, topic_filter: str, qos: int) -> Received:
        received = Received(client, topic_filter, qos, asked_at=self.tick())
        self.subscriptions.append(received)
        return received

    def arrives(
        self, received: Received, topic: str, number: int, *, dup: bool, packet_id: int, connection: int
    ) -> Arrival:
        self.delivered += 1
        arrival = Arrival(number, dup, self.tick(), packet_id, connection)
        received.topics[topic].append(arrival)
        return arrival

    # ---- the verdict

    def missing(self) -> list[str]:
        """What is owed and has not come, so far."""
        found: list[str] = []
        for received in self.subscriptions:
            if not received.shared():
                for topic, sent in self._owed(received):
                    there = {arrival.number for arrival in received.topics.get(topic, ())}
                    found += _named(received.client, topic, _expected(sent, received.granted_at) - there)
        return found

    def missing_in_groups(self) -> list[str]:
        """What has come to no member of a group, so far."""
        found: list[str] = []
        for name in {received.filter for received in self.subscriptions if received.shared()}:
            members = [received for received in self.subscriptions if received.filter == name]
            granted_at = min(received.granted_at for received in members)
            for topic, sent in self._owed(members[0]):
                there = {arrival.number for member in members for arrival in member.topics.get(topic, ())}
                found += _named(name, topic, _expected(sent, granted_at) - there)
        return found

    def _owed(self, received: Received) -> list[tuple[str, Sent]]:
        return [(topic, sent) for topic, sent in self.sent.items() if received.matches(topic)]

    def verdict(self, *, marked: bool = False) -> list[str]:
        """Every violation of the rules; of the fourth if what came again has to be `marked`."""
        found = [*self.violations, *(f"missing: {what}" for what in self.missing())]
        for received in self.subscriptions:
            for topic, arrivals in received.topics.items():
                where = f"{received.client} on {topic}"
                sent = self.sent.get(topic)
                if sent is None:
                    found.append(f"{where}: nobody ever sent that")
                elif not received.shared():
                    found += _order(where, sent.qos, min(sent.qos, received.qos), arrivals)
                    if marked and sent.qos == 2:
                        found += _unmarked(where, arrivals)
                    found += _too_early(where, sent, received.asked_at, arrivals)
        return found + self._group_repetitions()

    def lost(self) -> int:
        """Acknowledged messages that a subscriber or a group should have got and has not, so far."""
        groups: dict[str, list[Received]] = defaultdict(list)
        for received in self.subscriptions:
            groups[received.filter if received.shared() else received.client].append(received)
        count = 0
        for members in groups.values():
            granted_at = min(received.granted_at for received in members)
            for topic, sent in self._owed(members[0]):
                there = {arrival.number for member in members for arrival in member.topics.get(topic, ())}
                count += len(_expected(sent, granted_at) - there)
        return count

    def twice(self) -> int:
        """Arrivals of QoS 2 messages that the same subscriber or group had got before."""
        again = len(self._group_repetitions())
        for received in self.subscriptions:
            for topic, arrivals in received.topics.items():
                if not received.shared() and min(received.qos, self.sent[topic].qos) == 2:
                    again += len(arrivals) - len({arrival.number for arrival in arrivals})
        return again

    def _group_repetitions(self) -> list[str]:
        counts: dict[tuple[str, str, int], list[str]] = defaultdict(list)
        for received in self.subscriptions:
            if received.shared():
                for topic, arrivals in received.topics.items():
                    if min(received.qos, self.sent[topic].qos) == 2:
                        for arrival in arrivals:
                            counts[received.filter, topic, arrival.number].append(received.client)
        return [
            f"twice in {name}: {topic} {number}, by {', '.join(clients)}"
            for (name, topic, number), clients in counts.items()
            if len(clients) > 1
        ]


def _expected(sent: Sent, granted_at: int) -> set[int]:
    if not granted_at:
        return set()
    return {n for n, at in enumerate(sent.sent_at) if at > granted_at and sent.acknowledged_at[n]}


def _named(who: str, topic: str, numbers: set[int]) -> list[str]:
    return [f"{who}: {topic} {_ranges(numbers)}"] if numbers else []


def _ranges(numbers: set[int]) -> str:
    shown: list[str] = []
    for number in sorted(numbers):
        if shown and int(shown[-1].split("-")[-1]) == number - 1:
            shown[-1] = f"{shown[-1].split('-')[0]}-{number}"
        else:
            shown.append(str(number))
    return " ".join(shown)


def _order(where: str, sent_qos: int, qos: int, arrivals: list[Arrival]) -> list[str]:
    found: list[str] = []
    before = arrivals[0]
    for arrival in arrivals[1:]:
        step = arrival.number - before.number
        if step > 1 or (qos == 2 and step != 1):
            found.append(f"{where}, QoS {sent_qos} to {qos}: {arrival} behind {before}")
        if sent_qos == 2 or arrival.number > before.number:
            before = arrival
    return found


def _unmarked(where: str, arrivals: list[Arrival]) -> list[str]:
    seen: set[int] = set()
    unmarked: set[int] = set()
    for arrival in arrivals:
        if arrival.number in seen and not arrival.dup:
            unmarked.add(arrival.number)
        seen.add(arrival.number)
    return [f"{where}: comes again without DUP: {_ranges(unmarked)}"] if unmarked else []


def _too_early(where: str, sent: Sent, asked_at: int, arrivals: list[Arrival]) -> list[str]:
    early = {arrival.number for arrival in arrivals if 0 < sent.acknowledged_at[arrival.number] < asked_at}
    return [f"{where}: acknowledged before the subscription: {_ranges(early)}"] if early else []
