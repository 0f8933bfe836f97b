"""The fixed data set of the stand-in console: clients, numbers, charts, events, alarms, audit.

Everything follows from NOW_US and formulas, so that two runs show the same page. Shapes are those of the console's API.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

from holdfast.console.live.alarms import RULES, RUNBOOK
from holdfast.control.metrics import DURATION_BOUNDS, METRICS

#: 2026-11-18 14:03:10 UTC.
NOW_US: Final = 1_795_010_590_000_000
SECOND_US: Final = 1_000_000
DAY_S: Final = 86_400

CLIENTS: Final = 100_000
#: Every so manieth client is offline.
OFFLINE_EVERY: Final = 6
LONG_NAME: Final = "L" * 65_000
#: Names that try to be something else: markup, a script, an address, a control character, a mark that turns text.
HOSTILE_NAMES: Final = (
    "<img src=x onerror=alert(1)>",
    "\"><script>document.title='taken'</script>",
    "a/b?c=d&e#f%2Fg",
    "mount\0device",
    "abc\u202egnp.exe",
    "line\nbreak\ttab\x1b[31m",
    "ünïcödé 漢字 \U0001f980",
    "javascript:alert(1)",
    LONG_NAME,
)
SLOWEST: Final = "archive-writer"
LISTENERS: Final = ("default", "tls", "ws")


class Client(NamedTuple):
    """`ClientRow` of the control socket, with what the console adds for offline sessions."""

    session_id: str
    client_id: str
    user: str
    address: str
    port: int
    listener: str
    transport: str
    version: int
    since_us: int
    keep_alive_s: int
    expiry_s: int
    subscriptions: int
    inflight: int
    behind: bool
    owed: int
    connected: bool
    disconnected_us: int | None


def make_clients() -> list[Client]:
    clients = [_client(n, f"{('press', 'oven', 'robot', 'meter')[n % 4]}-{n:05d}") for n in range(CLIENTS)]
    clients += [_client(7 * n + 1, name) for n, name in enumerate(HOSTILE_NAMES)]
    clients.append(_client(12, SLOWEST)._replace(owed=1_204_311, behind=True, user="archive", inflight=100))
    return clients


def _client(n: int, name: str) -> Client:
    offline = n % OFFLINE_EVERY == 5
    behind = not offline and n % 2711 == 3
    listener = LISTENERS[(n // 3) % 3]
    gone_us = NOW_US - (n * 7919 % (3 * DAY_S) + 60) * SECOND_US
    return Client(
        session_id=name,
        client_id=name.partition("\0")[2] or name,
        user=("alice", "bob", "carol", "")[n // 5 % 4],
        address="" if offline else f"10.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}",
        port=0 if offline else 40_000 + n % 20_000,
        listener="" if offline else listener,
        transport="" if offline else {"default": "tcp", "tls": "tls", "ws": "ws"}[listener],
        version=0 if offline else (5, 5, 4, 3)[n % 4],
        since_us=gone_us if offline else NOW_US - (n * 104_729 % (12 * DAY_S) + 5) * SECOND_US,
        keep_alive_s=0 if offline else 60,
        expiry_s=(604_800, 0, 4_294_967_295, 3600)[n % 4] if not offline else 604_800,
        subscriptions=n % 5 + 1,
        inflight=0 if offline else n % 7,
        behind=behind,
        owed=n * 31 % 90_000 if offline and n % 4 == 1 else (n % 5000 + 200 if behind else 0),
        connected=not offline,
        disconnected_us=gone_us if offline else None,
    )


def wave(at_s: float, mean: float, share: float = 0.3) -> float:
    """A number that goes up and down over a day and a minute, always the same for the same time."""
    day = math.sin(at_s / DAY_S * 2 * math.pi)
    minute = math.sin(at_s / 97) + 0.6 * math.sin(at_s / 13.3)
    return mean * (1 + share * day + share / 4 * minute)


def gauge(name: str, at_s: float) -> float:
    """What a series has at a time: counters as rates, gauges as they are, histograms as quantiles."""
    now_s = NOW_US / SECOND_US
    values = {
        "messages_received_total": wave(at_s, 41_000),
        "messages_sent_total": wave(at_s, 82_000),
        "bytes_received_total": wave(at_s, 6.1e6),
        "bytes_sent_total": wave(at_s, 12.4e6),
        "connections": round(wave(at_s, 83_000, 0.02)),
        "clients_behind": round(max(0.0, wave(at_s, 31, 0.4))),
        "drops_total": max(0.0, wave(at_s, 2, 2.2) - 3),
        "disk_free_bytes": 590e9 - (at_s - now_s) / DAY_S * 31e9,
        "commit_seconds_p50": 0.001,
        "commit_seconds_p99": 0.005 if math.sin(at_s / 41) < 0.9 else 0.025,
        "loop_lag_seconds_p99": 0.0025 if math.sin(at_s / 29) < 0.8 else 0.005,
    }
    return float(values.get(name, 0.0))


class Broker:
    """The broker that the stand-in shows: its clock, when it ran, and its newest frame."""

    def __init__(self) -> None:
        self.now_us = NOW_US
        self.started_us = NOW_US - 12 * DAY_S * SECOND_US - 3 * 3600 * SECOND_US
        self.frame_us = NOW_US
        self.hangs = False
        #: Times in which it did not run, in seconds.
        self.gaps_s: list[tuple[float, float]] = [(NOW_US / SECOND_US - 1500, NOW_US / SECOND_US - 1320)]

    def advance(self, seconds: int = 1) -> None:
        self.now_us += seconds * SECOND_US
        if not self.hangs:
            self.frame_us = self.now_us

    def restart(self, away_s: int) -> None:
        """It stops, and comes back after so many seconds."""
        gone_s = self.now_us / SECOND_US
        self.now_us += away_s * SECOND_US
        self.started_us = self.frame_us = self.now_us
        self.gaps_s.append((gone_s, self.now_us / SECOND_US))

    def stats(self) -> dict[str, Any]:
        at_s = self.frame_us / SECOND_US
        up_s = (self.frame_us - self.started_us) / SECOND_US
        names = [name for name, metric in METRICS.items() if metric.kind == "counter" and not metric.labels]
        numbers = {name: gauge(name, at_s) * up_s for name in names}
        numbers |= {name: gauge(name, at_s) for name in ("clients_behind", "disk_free_bytes")}
        numbers |= {"disk_total_bytes": 1e12, "inflight_messages": 4210.0, "retained_messages": 88_204.0}
        connected = gauge("connections", at_s)
        numbers["start_time_seconds"] = self.started_us / SECOND_US
        rates = {name: gauge(name, at_s) for name in (*names, "drops_total")}
        return {
            "as_of_us": self.frame_us,
            "age_s": (self.now_us - self.frame_us) / SECOND_US,
            "state": "taking",
            "detail": "",
            "numbers": numbers,
            "labelled": {
                "connections": {"default": connected * 0.5, "tls": connected * 0.4, "ws": connected * 0.1},
                "sessions": {"connected": connected, "offline": 16_666.0},
                "subscriptions": {"ordinary": 300_000.0, "shared": 12.0},
                "drops_total": {"expired": 812.0, "denied": 97.0, "slow_client": 12.0, "queue_full": 3.0},
                "stored_messages": {"default": 9_800_000.0, "plant": 1_204_000.0},
                "stored_bytes": {"default": 880e6, "plant": 96e6},
                "generations": {"default": 12.0, "plant": 3.0},
                "oldest_message_timestamp_seconds": {"default": at_s - 6.9 * DAY_S, "plant": at_s - 2.1 * DAY_S},
                "certificate_expiry_timestamp_seconds": {"tls": NOW_US / SECOND_US + 61 * DAY_S},
                "lease_lag_seconds": {"archive": 3.0, "plots-of-presses": 7210.0},
                "lease_age_seconds": {"archive": 2.0, "plots-of-presses": 7205.0},
                "lease_broken_timestamp_seconds": {"learn-2025": NOW_US / SECOND_US - 3 * DAY_S},
            },
            "histograms": {"commit_seconds": _histogram(up_s, 400), "loop_lag_seconds": _histogram(up_s, 2)},
            "rates": rates,
        }

    def series(self, names: list[str], from_us: int, to_us: int) -> dict[str, Any]:
        from_s, to_s = from_us // SECOND_US, min(to_us, self.frame_us) // SECOND_US
        span_s = to_us // SECOND_US - from_s
        step_s = 1 if span_s <= 3600 else 10 if span_s <= DAY_S else 60
        times = range(from_s // step_s * step_s, to_s + 1, step_s)
        values = [[None if self._was_away(at_s) else gauge(name, at_s) for at_s in times] for name in names]
        return {"step_s": step_s, "from_us": times.start * SECOND_US, "names": names, "values": values}

    def _was_away(self, at_s: float) -> bool:
        return any(gone_s < at_s < back_s for gone_s, back_s in self.gaps_s)


def _histogram(up_s: float, per_second: int) -> dict[str, Any]:
    shares = (0, 0.01, 0.14, 0.45, 0.28, 0.115, 0.004, 0.001)
    counts = [int(up_s * per_second * share) for share in shares] + [0] * (len(DURATION_BOUNDS) + 1 - len(shares))
    return {"bounds_s": list(DURATION_BOUNDS), "counts": counts, "sum": up_s * per_second * 0.0012}


def make_events() -> list[dict[str, Any]]:
    """Newest first."""
    reasons = ("expired", "denied", "slow_client", "connect_refused", "disconnected", "takeover", "queue_full")
    events = []
    for n in range(600):
        at_us = NOW_US - (n * n * 251 + 40 * n + 30) * 1000 * 400
        reason = reasons[n * n % 7] if n % 3 else "denied"
        topic = "" if reason in ("connect_refused", "disconnected", "takeover") else f"plant/{n % 9}/temp"
        events.append(_event(at_us, reason, f"press-{n * 17 % 900 * 4:05d}", topic, n % 12 + 1))
    events.append(
        _event(NOW_US - 61 * SECOND_US, "denied", "press-00004", "plant/safe/door", 3, "rule holdfast.acl:12")
    )
    events.append(_event(NOW_US - 75 * SECOND_US, "denied", HOSTILE_NAMES[0], HOSTILE_NAMES[1], 1, HOSTILE_NAMES[5]))
    events.append(_event(NOW_US - 90 * SECOND_US, "slow_client", "", "", 812))
    events.append(_event(NOW_US - 300 * SECOND_US, "connect_refused", "press-00013", "", 2))
    return sorted(events, key=lambda event: -int(event["at_us"]))


def _event(at_us: int, reason: str, client: str, topic: str, count: int, detail: str = "") -> dict[str, Any]:
    position_us = at_us - 40_000 if topic else 0
    details = {"expired": "its expiry interval had passed", "connect_refused": "bad user name or password"}
    return {
        "at_us": at_us, "reason": reason, "client": client, "topic": topic, "count": count,
        "detail": detail or details.get(reason, ""), "shard": 2 if topic else 0, "from_us": position_us,
        "to_us": position_us + 100 if topic else 0,
    }  # fmt: skip


def make_alarms() -> list[dict[str, Any]]:
    anchors = {rule.name: rule.anchor for rule in RULES}

    def alarm(name: str, ago_s: int, lasted_s: int | None, detail: str) -> dict[str, Any]:
        since_us = NOW_US - ago_s * SECOND_US
        until_us = None if lasted_s is None else since_us + lasted_s * SECOND_US
        return {
            "alarm": name, "since_us": since_us, "until_us": until_us, "detail": detail, "muted_until_us": None,
            "runbook": f"{RUNBOOK}#{anchors[name]}",
        }  # fmt: skip

    return [
        alarm("lease_lagging", 7200, None, "archive is 2 h behind, the limit is 1 h"),
        alarm("drops_rising", 420, None, "2.1 drops a second over 5 minutes, the limit is 1"),
        alarm("disk_low", 9 * DAY_S, 1740, "38 GB free, the limit is 50 GB"),
        alarm("certificate_expiring", 20 * DAY_S, 3 * DAY_S, "listener tls: 12 days left"),
        alarm("loop_stalled", 30 * DAY_S, 9, "the event loop did not run for 3.2 s"),
    ]


def make_audit() -> list[dict[str, Any]]:
    """Newest first."""
    actions = (("kick", "press-00009"), ("purge queue", "oven-00101"), ("mute alarm", "disk_low"), ("reload", ""))
    return [
        {
            "id": f"{n:04d}", "at_us": NOW_US - n * 3700 * SECOND_US, "name": ("eva", "ci", "root")[n % 3],
            "kind": ("user", "token", "link")[n % 3], "role": "admin", "address": "10.0.0.5", "what": actions[n % 4][0],
            "target": actions[n % 4][1], "outcome": "done" if n % 7 else "refused: it is not connected",
        }
        for n in range(60)
    ]  # fmt: skip
