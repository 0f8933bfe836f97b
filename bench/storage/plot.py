"""The plot: messages per second by the size of a commit, and where the bytes of a stored message go, as plain SVG."""

from __future__ import annotations

from bench import svg
from bench.storage import rows
from bench.storage.collect import Results
from bench.storage.table import number

ALONE, OVERLAPPING = "#b8bec8", "#1f4e9e"
PAYLOAD, BEYOND = "#4f9d69", "#d08a2e"

_WIDTH = 860
_LABEL_WIDTH = 190
#: Room at the right end for a number behind the longest bar.
_NUMBER_WIDTH = 150
_BAR = 14
_GAP = 10


def draw(results: Results) -> str:
    """The whole picture."""
    body: list[str] = []
    y = _commits(body, 56, results)
    y = _kept(body, y + 20, results)
    head = [*svg.head(_WIDTH, y), svg.text(24, 32, "The log on disk", size=17, weight="bold")]
    return "\n".join([*head, *body, "</svg>", ""])


def _commits(body: list[str], y: int, results: Results) -> int:
    body.append(svg.text(24, y + 14, "Messages per second, synced, by the size of a commit", weight="bold"))
    entries = [("one after the other", ALONE), ("overlapping", OVERLAPPING)]
    body += svg.legend(y + 36, entries, "longer is better")
    y += 52
    kinds = (("alone_rate", ALONE), ("overlapping_rate", OVERLAPPING))
    longest = max(results[f"commit/{size}/{key}"] for size in rows.COMMITS for key, _ in kinds)
    x = _LABEL_WIDTH + 10
    for size in rows.COMMITS:
        words = "1 message" if size == 1 else f"{size:,} messages"
        body.append(svg.text(_LABEL_WIDTH, y + _BAR + 4, words, anchor="end"))
        for key, colour in kinds:
            value = results[f"commit/{size}/{key}"]
            length = max(1.0, value / longest * (_WIDTH - x - _NUMBER_WIDTH))
            body.append(svg.bar(x, y, length, _BAR - 1, colour))
            words = number(value, rows.PER_SECOND)
            body.append(svg.text(x + length + 6, y + _BAR - 3, words, size=11, colour=svg.FAINT))
            y += _BAR
        y += _GAP
    return y


def _kept(body: list[str], y: int, results: Results) -> int:
    body.append(svg.text(24, y + 14, "Bytes of a stored message, compacted", weight="bold"))
    entries = [("payload", PAYLOAD), ("header, topic, client id, keys, index", BEYOND)]
    body += svg.legend(y + 36, entries, "shorter is better")
    y += 52
    longest = max(results[f"payload/{size}/disk_bytes"] for size in rows.PAYLOADS)
    x = _LABEL_WIDTH + 10
    scale = (_WIDTH - x - _NUMBER_WIDTH) / longest
    for size in rows.PAYLOADS:
        whole = results[f"payload/{size}/disk_bytes"]
        part = min(float(size), whole)
        body.append(svg.text(_LABEL_WIDTH, y + _BAR - 3, f"{size:,} B", anchor="end"))
        body.append(svg.bar(x, y, part * scale, _BAR - 1, PAYLOAD))
        body.append(svg.bar(x + part * scale, y, max(1.0, (whole - part) * scale), _BAR - 1, BEYOND))
        words = f"{number(whole, rows.BYTES)}, {number(whole - size, rows.BYTES)} beyond the payload"
        at = x + whole * scale + 6
        if at > _WIDTH - _NUMBER_WIDTH - 60:
            words = number(whole, rows.BYTES)
        body.append(svg.text(at, y + _BAR - 3, words, size=11, colour=svg.FAINT))
        y += _BAR + _GAP
    return y + _GAP
