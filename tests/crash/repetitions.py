"""What comes again with QoS 1 after a broker was killed, and whether it could have known better.

    subscriber ── PUBACK ──▶ socket ──▶ broker reads it ──▶ progress is stored
                             │          │
                             │          └ killed here: `read`, the broker knew, and had not stored it
                             └ killed here: `unread`, nothing could be done

The broker is stopped before it is killed, and the kernel tells what lies unread in each of its sockets.
"""

import os
import signal
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from tests.crash.broker_ledger import Arrival, Ledger

#: Local and remote address, and the queues, in a line of /proc/net/tcp.
_LOCAL, _REMOTE, _QUEUES = 1, 2, 4
#: Seconds that a process may take to stop.
_PATIENCE_S = 10.0

#: Whether the broker had read a PUBACK when it was killed; BROKEN_OFF if the client had left that connection before.
READ = "read"
UNREAD = "unread"
BROKEN_OFF = "broken off"


@dataclass
class Repetitions:
    """Arrivals of QoS 1 messages that the same subscriber or group had got before, by the reason."""

    #: The publisher has sent it as often, and it was stored each time.
    published_again: int = 0
    #: No copy was acknowledged: it has to come again.
    unacknowledged: int = 0
    #: A copy was acknowledged, by what became of the PUBACK.
    acknowledged: Counter[str] = field(default_factory=Counter)
    #: Of those that the broker had read, by who got them: how long before the kill they were sent, milliseconds.
    ages_ms: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def total(self) -> int:
        return self.published_again + self.unacknowledged + self.acknowledged.total()


def count_repetitions(ledger: Ledger) -> Repetitions:
    """What came again with QoS 1, and why."""
    found = Repetitions()
    #: By who gets it, topic and number, in the order of time; and how many were sent again under their packet id,
    #: because they were not acknowledged.
    copies: dict[tuple[str, str, int], list[Arrival]] = defaultdict(list)
    resent: Counter[tuple[str, str, int]] = Counter()
    for received in ledger.subscriptions:
        name = received.filter if received.shared() else received.client
        for topic, arrivals in received.topics.items():
            if min(received.qos, ledger.sent[topic].qos) == 1:
                last: dict[tuple[int, int], Arrival] = {}
                for arrival in arrivals:
                    copies[name, topic, arrival.number].append(arrival)
                    before = last.get((arrival.number, arrival.packet_id))
                    resent[name, topic, arrival.number] += before is not None and not before.acknowledged
                    last[arrival.number, arrival.packet_id] = arrival
    for (name, topic, number), arrivals in copies.items():
        arrivals.sort(key=lambda arrival: arrival.at)
        left = len(arrivals) - 1 - resent[name, topic, number]
        found.unacknowledged += resent[name, topic, number]
        published_again = min(left, ledger.sent[topic].sent_again[number])
        found.published_again += published_again
        left -= published_again
        # What the broker had read explains a repetition before anything else does.
        for fate in (READ, BROKEN_OFF, UNREAD):
            acknowledged = [one for one in arrivals[:-1] if one.acknowledged and one.fate == fate][:left]
            left -= len(acknowledged)
            found.acknowledged[fate] += len(acknowledged)
            if fate == READ:
                found.ages_ms[name] += [one.age_s * 1000 for one in acknowledged]
        found.unacknowledged += left
    return found


def describe_repetitions(ledger: Ledger) -> str:
    """In a few lines."""
    found = count_repetitions(ledger)
    lines = [f"QoS 1 again: {_share(found.total(), ledger)} of what was delivered"]
    lines += [
        f"  acknowledged before: {_share(found.acknowledged.total(), ledger)}",
        f"    PUBACK read by the broker before the kill: {_share(found.acknowledged[READ], ledger)}",
        f"    PUBACK in a socket when it was killed: {_share(found.acknowledged[UNREAD], ledger)}",
        f"    on a connection that its client broke off: {_share(found.acknowledged[BROKEN_OFF], ledger)}",
        f"  not acknowledged: {_share(found.unacknowledged, ledger)}",
        f"  published again: {_share(found.published_again, ledger)}",
    ]
    lines.append("  PUBACKs that were read, and how long before the kill they were sent:")
    for name, ages in sorted(found.ages_ms.items(), key=lambda item: -len(item[1])):
        if ages:
            most = sorted(ages)[len(ages) * 9 // 10]
            lines.append(f"    {name}: {len(ages)}, median {median(ages):.1f} ms, nine of ten within {most:.1f} ms")
    return "\n".join(lines)


def _share(part: int, ledger: Ledger) -> str:
    return f"{part}, {100 * part / max(ledger.delivered, 1):.2f} %"


def freeze(pid: int) -> None:
    """Stop a process where it is. Ensures: none of its threads runs any more."""
    os.kill(pid, signal.SIGSTOP)
    give_up_s = time.monotonic() + _PATIENCE_S
    while any(state not in "TtZX" for state in _states(pid)):
        assert time.monotonic() < give_up_s, "the broker does not stop"
        time.sleep(0.0002)


def _states(pid: int) -> list[str]:
    """Of its threads."""
    return [(task / "stat").read_text().rpartition(")")[2].split()[0] for task in Path(f"/proc/{pid}/task").iterdir()]


def unread_bytes(port: int) -> dict[int, int]:
    """What lies unread in the connections to a port of this machine, by the port of the client."""
    found: dict[int, int] = {}
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if _port(fields[_LOCAL]) == port:
            found[_port(fields[_REMOTE])] = int(fields[_QUEUES].split(":")[1], 16)
    return found


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)
