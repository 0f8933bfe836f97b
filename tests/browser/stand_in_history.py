"""The past that the stand-in console shows: some thousand messages of a day, and the answers about them by brute force.

A plant with temperatures, states and reports as JSON, a gap in which the broker did not run, three generations, names
and payloads that are no text. Shapes are those of the history process.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator
from typing import Any, Final

from holdfast.model.errors import HoldfastError
from holdfast.topics.filters import TopicFilter, parse_filter
from holdfast.topics.since import parse_since
from tests.browser.stand_in_data import HOSTILE_NAMES, NOW_US, SECOND_US

HOUR_US: Final = 3600 * SECOND_US
OLDEST_US: Final = NOW_US - 24 * HOUR_US
#: The broker did not run from 9 h to 8 h before now.
GAP: Final = (NOW_US - 9 * HOUR_US, NOW_US - 8 * HOUR_US)
GENERATIONS_US: Final = (OLDEST_US, NOW_US - 16 * HOUR_US, NOW_US - 8 * HOUR_US)
LOST_AT_MOST: Final = 1_200_000
MACHINES: Final = 8
#: Machine 7 falls silent here, machine 6 is heard for the first time here.
SILENT_US: Final = OLDEST_US + 18 * HOUR_US
CAME_US: Final = NOW_US - 2 * HOUR_US
#: What was erased lies here.
ERASED_US: Final = NOW_US - 5 * HOUR_US
ERASED_AT_MOST: Final = 12
#: Messages that one question of a payload search looks through, so that it has to go on.
LOOKED_THROUGH: Final = 1500
HOSTILE_TOPIC: Final = "hostile/<img src=x onerror=alert(1)>"
HOSTILE_PAYLOADS: Final = (
    b"<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">",
    "right\u202eto left\u202c, \0 and \x1b[31m".encode(),
    b"\xff\xfe\x00invalid\x80",
    b'{"html":"<b>bold</b>","__proto__":{"x":1},"deep":[[[[[1]]]]]}',
    b"<i>long</i>" * 1000,
)
#: {"t": 21.5, "unit": "C", "raw": h'0102', "list": [1, 2, -3]}
CBOR: Final = bytes.fromhex("a46174f94d6064756e6974614363726177420102646c69737483010222")
#: Metrics temperature (Double 21.5), running (Boolean true) and count (Int32 -7), sequence 3.
SPARKPLUG: Final = bytes.fromhex(
    "08e0b3a5eff133121f0a0b74656d706572617475726518e0b3a5eff133200a690000000000803540"
    "120d0a0772756e6e696e67200b7001120f0a05636f756e74200350f9ffffff0f1803"
)
_CUT: Final = 4096


class BadParameterError(Exception):
    """What a parameter should have been."""

    def __init__(self, parameter: str, detail: str) -> None:
        super().__init__(detail)
        self.parameter: Final = parameter
        self.detail: Final = detail


class Message:
    """A stored message. Its position is its time, of which there are no two."""

    def __init__(
        self, serial: int, at_us: int, topic: str, payload: bytes, client: str, *, retain: bool = False
    ) -> None:
        self.serial: Final = serial
        self.at_us: Final = at_us
        self.topic: Final = topic
        self.payload: Final = payload
        self.client: Final = client
        self.retain: Final = retain

    def shown(self, *, full: bool = False) -> dict[str, Any]:
        body = self.payload if full else self.payload[:_CUT]
        shown: dict[str, Any] = _plain(body)
        if len(body) < len(self.payload):
            shown |= {"cut": True, "bytes": len(self.payload)}
        kind = {"content_type": "application/json"} if self.payload.startswith(b"{") else {}
        return {
            "topic": _plain(self.topic.encode()), "payload": shown, "bytes": len(self.payload), "qos": 1,
            "retain": self.retain, "client": self.client, "at_us": self.at_us, "received_us": self.at_us - 2100,
            "place": f"0/{self.at_us}/{self.serial}", "zone": "default", "properties": kind,
        }  # fmt: skip


def _plain(raw: bytes) -> dict[str, Any]:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode()}
    if any(ord(c) < 32 and c not in "\t\n\r" for c in text):
        return {"base64": base64.b64encode(raw).decode()}
    return {"text": text}


def make_messages() -> list[Message]:
    """Oldest first."""
    found: list[tuple[int, str, bytes, str, bool]] = []
    for n in range(24 * 60):
        at_us = OLDEST_US + n * 60 * SECOND_US
        for machine in range(MACHINES):
            if (machine == 7 and at_us > SILENT_US) or (machine == 6 and at_us < CAME_US):
                continue
            # Busy and quiet times, by formulas.
            if (n * 7 + machine * 3) % 10 > 4 + 3 * math.sin(n / 130) + 2 * math.sin(n / 23):
                continue
            when_us = at_us + machine * 911_003 + 17
            value = 20 + machine + 3 * math.sin((n + 40 * machine) / 90)
            found.append((when_us, f"plant/{machine}/temp", f"{value:.1f}".encode(), f"plc-{machine}", False))
            if n % 20 == machine:
                state = {"state": "running" if (n // 120 + machine) % 5 else "stopped", "t": round(value, 2), "n": n}
                report = json.dumps(state, separators=(",", ":")).encode()
                found.append((when_us + 1009, f"plant/{machine}/report", report, f"plc-{machine}", True))
    found += [
        (NOW_US - 50 * SECOND_US, HOSTILE_NAMES[0], HOSTILE_NAMES[1].encode(), HOSTILE_NAMES[0], False),
        (NOW_US - 49 * SECOND_US, "bytes/any", bytes(range(256)), "plc-1", False),
        (NOW_US - 48 * SECOND_US, "bytes/large", b"0123456789abcdef" * 4096, "plc-1", False),
        (NOW_US - 47 * SECOND_US, "plant/safe/door", b"open", "plc-3", True),
        (NOW_US - 46 * SECOND_US, "edge/reading", CBOR, "edge-1", False),
        (NOW_US - 45 * SECOND_US, "spBv1.0/plant/DDATA/edge/press", SPARKPLUG, "edge-1", False),
    ]
    for n, payload in enumerate(HOSTILE_PAYLOADS):
        found.append((NOW_US - 40 * SECOND_US + n, HOSTILE_TOPIC, payload, "<b>evil</b>\u202e", False))
    kept = sorted(one for one in found if not GAP[0] <= one[0] < GAP[1])
    return [
        Message(LOST_AT_MOST + n, at_us, topic, payload, client, retain=retain)
        for n, (at_us, topic, payload, client, retain) in enumerate(kept)
    ]


Params = dict[str, list[str]]


class History:
    """Answers by looking at all messages."""

    def __init__(self) -> None:
        self.messages: Final = make_messages()
        self.now_us = NOW_US

    def add(self, topic: str, payload: bytes, client: str = "test") -> Message:
        """A message of this moment, which is a second later than the moment before."""
        self.now_us += SECOND_US
        message = Message(LOST_AT_MOST + len(self.messages), self.now_us, topic, payload, client)
        self.messages.append(message)
        return message

    # ---- parameters

    def _filter(self, params: Params) -> TopicFilter:
        text = params.get("filter", ["#"])[0]
        if text.startswith(("$share/", "$replay/")):
            raise BadParameterError("filter", f"{text!r}: write the filter alone, without $share and $replay")
        try:
            return parse_filter(text.encode())
        except HoldfastError as error:
            raise BadParameterError("filter", str(error)) from None

    def _time(self, params: Params, name: str, default_us: int) -> int:
        text = params.get(name, [""])[0]
        if not text:
            return default_us
        try:
            return parse_since(text).resolve(self.now_us)
        except HoldfastError:
            raise BadParameterError(name, f"{text!r} is no time; right would be -1h, ISO 8601 or earliest") from None

    def _number(self, params: Params, name: str, default: int, most: int) -> int:
        text = params.get(name, [str(default)])[0]
        if not text.isdigit() or not 0 < int(text) <= most:
            raise BadParameterError(name, f"{text!r} is not a number from 1 to {most}")
        return int(text)

    def _matching(self, params: Params, from_us: int, to_us: int) -> list[Message]:
        """Those of the filter, client and payload with from ≤ position < to, oldest first."""
        topic_filter = self._filter(params)
        client = params.get("client", [""])[0]
        text = params.get("payload", [""])[0]
        return [
            message
            for message in self.messages
            if from_us <= message.at_us < to_us
            and topic_filter.matches(message.topic.encode())
            and (not client or client == message.client)
            and (not text or _has(message.payload, text))
        ]

    # ---- answers

    def zones(self, _params: Params) -> dict[str, Any]:
        ends: list[int | None] = [*GENERATIONS_US[1:], None]
        generations = [
            {
                "number": n + 1, "start_us": start_us, "end_us": end_us, "bytes": 80_000_000,
                "messages": len([m for m in self.messages if start_us <= m.at_us < (end_us or NOW_US)]),
            }
            for n, (start_us, end_us) in enumerate(zip(GENERATIONS_US, ends, strict=True))
        ]  # fmt: skip
        zone = {
            "name": "default", "filters": [], "shards": [0], "layout": "learned", "generations": generations,
            "messages": len(self.messages), "oldest_us": self.messages[0].at_us, "newest_us": self.messages[-1].at_us,
            "dropped_at_most": LOST_AT_MOST,
        }  # fmt: skip
        return {"zones": [zone], "as_of_us": self.now_us}

    def density(self, params: Params) -> Iterator[dict[str, Any]]:
        """An estimate, then what is exact."""
        from_us = self._time(params, "from", OLDEST_US)
        to_us = max(from_us + 1000, self._time(params, "to", self.now_us))
        buckets = self._number(params, "buckets", 300, 600)
        found = self._matching(params, from_us, to_us)
        step_us = max(1, math.ceil((to_us - from_us) / buckets))
        counts = [0] * math.ceil((to_us - from_us) / step_us)
        for message in found:
            counts[(message.at_us - from_us) // step_us] += 1
        gaps = [list(GAP)] if from_us < GAP[1] and to_us > GAP[0] else []
        plain = params.get("filter", ["#"])[0] == "#"
        head = {
            "from_us": from_us, "to_us": to_us, "step_us": step_us, "looked_at": len(found),
            "erased_at_most": ERASED_AT_MOST if plain and from_us <= ERASED_US < to_us else 0,
            "lost_at_most": LOST_AT_MOST if from_us < OLDEST_US else 0, "lost_before_us": OLDEST_US, "gaps": gaps,
            "generations_us": [at_us for at_us in GENERATIONS_US if from_us <= at_us < to_us],
            "erasures_us": [ERASED_US] if from_us <= ERASED_US < to_us else [],
        }  # fmt: skip
        if not plain:
            rough = [count if count == 0 else max(1, round(count * 1.2)) for count in counts]
            errors = [0 if count == 0 else max(1, count // 2) for count in counts]
            yield head | {"counts": rough, "errors": errors, "exact": False, "done": False, "total": sum(rough)}
        exact = {"counts": counts, "errors": [0] * len(counts), "exact": True, "done": True, "total": len(found)}
        yield head | exact

    def list_messages(self, params: Params) -> dict[str, Any]:
        at_us = self._time(params, "at", self.now_us)
        older = params.get("direction", ["older"])[0] == "older"
        limit = self._number(params, "limit", 100, 1000)
        cursor = params.get("cursor", [""])[0]
        from_us, to_us = self._time(params, "from", 0), self._time(params, "to", 2**62)
        edge_us = int(cursor) if cursor else at_us
        if older:
            low_us, high_us = from_us, min(to_us, edge_us if cursor else edge_us + 1)
        else:
            low_us, high_us = max(from_us, edge_us + 1), to_us
        within = [message for message in self.messages if low_us <= message.at_us < high_us]
        looked, stopped = within, "end"
        if params.get("payload", [""])[0] and len(within) > LOOKED_THROUGH:
            looked, stopped = (within[-LOOKED_THROUGH:] if older else within[:LOOKED_THROUGH]), "time"
        found = self._matching(params, looked[0].at_us, looked[-1].at_us + 1) if looked else []
        if older:
            looked, found = looked[::-1], found[::-1]
        page = found[:limit]
        if len(found) > limit:
            stopped = "limit"
            looked = looked[: looked.index(page[-1]) + 1]
        full = params.get("full", ["0"])[0] == "1"
        return {
            "messages": [message.shown(full=full) for message in page],
            "next_cursor": None if stopped == "end" else str(looked[-1].at_us), "looked_through": len(looked),
            "of": len(within), "stopped": stopped, "as_of_us": self.now_us,
            "lost_at_most": LOST_AT_MOST if older and stopped == "end" and from_us < OLDEST_US else 0,
        }  # fmt: skip

    def _state_at(self, params: Params, at_us: int, back_us: int) -> dict[str, Message]:
        retained = params.get("retained", ["0"])[0] == "1"
        newest: dict[str, Message] = {}
        for message in self._matching({"filter": params.get("filter", ["#"])}, at_us - back_us, at_us + 1):
            if not retained or message.retain:
                newest[message.topic] = message
        return newest

    def state(self, params: Params) -> dict[str, Any]:
        at_us = self._time(params, "at", self.now_us)
        back_us = self._number(params, "look_back_s", 3600, 10**9) * SECOND_US
        newest = self._state_at(params, at_us, back_us)
        topics = [message.shown() | {"age_us": at_us - message.at_us} for _, message in sorted(newest.items())]
        whole = at_us - back_us <= OLDEST_US
        return {
            "at_us": at_us, "topics": topics, "looked_back_to_us": max(at_us - back_us, OLDEST_US),
            "stopped": "end" if whole else "look_back", "complete": whole,
        }  # fmt: skip

    def compare(self, params: Params) -> dict[str, Any]:
        a_us, b_us = self._time(params, "a", self.now_us), self._time(params, "b", self.now_us - HOUR_US)
        back_us = self._number(params, "look_back_s", 3600, 10**9) * SECOND_US
        a, b = self._state_at(params, a_us, back_us), self._state_at(params, b_us, back_us)
        changed = [
            {"topic": _plain(topic.encode()), "a": a[topic].shown(), "b": b[topic].shown(),
             "paths": _differences(a[topic].payload, b[topic].payload)}
            for topic in sorted(a.keys() & b.keys()) if a[topic].payload != b[topic].payload
        ]  # fmt: skip
        return {
            "a_us": a_us, "b_us": b_us, "changed": changed,
            "came": [b[topic].shown() for topic in sorted(b.keys() - a.keys())],
            "silent": [a[topic].shown() for topic in sorted(a.keys() - b.keys())],
            "same": len(a.keys() & b.keys()) - len(changed), "stopped": "look_back",
        }  # fmt: skip

    def plot(self, params: Params) -> dict[str, Any]:
        from_us, to_us = self._time(params, "from", OLDEST_US), self._time(params, "to", self.now_us)
        points = self._number(params, "points", 600, 2000)
        step_us = max(1, math.ceil((to_us - from_us) / points))
        path = params.get("path", ["$"])[0]
        series = []
        for topic in params.get("topic", []):
            columns: dict[int, list[float]] = {}
            not_numbers = 0
            for message in self._matching({"filter": [topic]}, from_us, to_us):
                value = _number_at(message.payload, path)
                if value is None:
                    not_numbers += 1
                else:
                    columns.setdefault((message.at_us - from_us) // step_us, []).append(value)
            rows = [
                [from_us + n * step_us, min(values), max(values), values[-1], len(values)]
                for n, values in sorted(columns.items())
            ]
            series.append({"topic": topic, "columns": rows, "not_numbers": not_numbers})
        return {"step_us": step_us, "series": series}

    def topics(self, params: Params) -> dict[str, Any]:
        text = params.get("q", [""])[0].casefold()
        under = params.get("under", [""])[0]
        limit = self._number(params, "limit", 100, 1000)
        newest = {message.topic: message for message in self.messages}
        names = [name for name in sorted(newest) if text in name.casefold() and name.startswith(under)]
        rows = [
            {"name": name, "is_pattern": False, "messages": None, "last_us": newest[name].at_us}
            for name in names[:limit]
        ]
        return {"topics": rows}

    def retained(self, params: Params) -> dict[str, Any]:
        newest = self._state_at(params | {"retained": ["1"]}, self.now_us, 10**18)
        return {"retained": [m.shown() for _, m in sorted(newest.items())], "next_cursor": None, "count": len(newest)}

    def queue(self, session_id: str, owed: int, params: Params) -> dict[str, Any]:
        chosen = self.messages[-min(owed, 140) :] if owed else []
        begin, limit = int(params.get("cursor", ["0"])[0]), int(params.get("limit", ["100"])[0])
        end = begin + limit
        return {
            "messages": [m.shown() for m in chosen[begin:end]],
            "next_cursor": str(end) if end < len(chosen) else None,
            "exact": session_id != "archive-writer",
        }

    def explain(self, session_id: str, params: Params) -> dict[str, Any]:
        since_us = self._time(params, "since", self.now_us - HOUR_US)
        found = self._matching(params, since_us, self.now_us + 1)
        states = ("acknowledged", "owed", "dropped", "in_flight")
        whys = ("its progress is behind it", "it waits in the queue", "the access rules do not allow it", "sent")
        fates = []
        for n, message in enumerate(found[-100:]):
            kind = 2 if message.topic == "plant/safe/door" else (n % 4 if n % 9 == 0 else 0)
            match = [{"filter": "plant/#", "qos": 1, "since_us": OLDEST_US}]
            fates.append({
                "topic": message.topic, "qos": 1, "publisher": message.client, "received_us": message.at_us - 2100,
                "shard": 0, "position_us": message.at_us, "state": states[kind], "why": whys[kind], "matched": match,
            })  # fmt: skip
        session: dict[str, Any] = {"connected": True, "disconnected_us": None, "expiry_s": 604_800, "subscriptions": []}
        return {
            "client": session_id, "session": session, "found": len(found), "lost_by_retention_at_most": 0,
            "events_complete": True, "messages": fates, "events": [],
        }  # fmt: skip


def _has(payload: bytes, text: str) -> bool:
    if not text.startswith("$."):
        return text.encode() in payload
    path, sign, limit = [*text.split(" ", 2), "", ""][:3]
    value = _number_at(payload, path)
    if value is None or sign not in ("<", ">", "=="):
        return False
    return {"<": value < float(limit), ">": value > float(limit), "==": value == float(limit)}[sign]


def _number_at(payload: bytes, path: str) -> float | None:
    try:
        value = json.loads(payload)
        for step in path.split(".")[1:]:
            value = value[step]
        return float(value) if isinstance(value, int | float) else None
    except (ValueError, KeyError, TypeError, UnicodeDecodeError):
        return None


def _differences(a: bytes, b: bytes) -> list[dict[str, Any]]:
    try:
        left, right = json.loads(a), json.loads(b)
    except ValueError:
        return []
    if not isinstance(left, dict) or not isinstance(right, dict):
        return [{"path": "$", "a": left, "b": right}]
    keys = sorted(left.keys() | right.keys())
    return [{"path": f"$.{k}", "a": left.get(k), "b": right.get(k)} for k in keys if left.get(k) != right.get(k)]
