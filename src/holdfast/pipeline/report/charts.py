"""The pictures of a report: messages in time, payload sizes, hours of the day."""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from html import escape
from math import ceil, log2
from typing import Final

from holdfast.model.time import DAY_S, EPOCH
from holdfast.pipeline.report import formats
from holdfast.pipeline.report.figures import Sizes, Timeline
from holdfast.pipeline.report.traffic import OTHER

_WIDTH: Final = 1000
_LEFT: Final = 52
_TICKS: Final = 5
#: Labels below a timeline, at most.
_LABELS: Final = 9
_STEPS_S: Final = (1, 5, 10, 30, 60, 300, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000)
#: Days that have their own row; more are shown by the day of the week.
_DAYS: Final = 16
_WEEK: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def colour(index: int, name: str) -> str:
    """The class of a series."""
    return "c0" if name == OTHER else f"c{index % 7 + 1}"


def legend(entries: list[tuple[str, str]]) -> str:
    """Names with their colours' classes."""
    keys = "".join(f'<li><i class="{kind}"></i>{escape(name)}</li>' for name, kind in entries)
    return f'<ul class="legend">{keys}</ul>'


# ---- messages in time


def timeline_chart(found: Timeline) -> str:
    height, bottom, top = 300, 34, 12
    heights = [sum(series.counts.get(i, 0) for series in found.series) for i in range(found.slices)]
    step, most = _nice(max(heights, default=0))
    plot_px, room_px = _WIDTH - _LEFT - 8, height - bottom - top
    each_px = plot_px / found.slices
    base = height - bottom

    def pieces() -> Iterator[str]:
        for i in range(int(most / step) + 1):
            y = base - room_px * i * step / most
            yield line(_LEFT, y, _WIDTH - 8, y)
            yield text(_LEFT - 8, y + 4, formats.tick(i * step), "t faint", "end")
        for i in range(found.slices):
            if not heights[i]:
                continue
            start = found.start + timedelta(seconds=i * found.slice_s)
            y = float(base)
            parts = []
            for n, series in enumerate(found.series):
                count = series.counts.get(i, 0)
                if count:
                    tall = room_px * count / most
                    y -= tall
                    parts.append(bar(_LEFT + i * each_px + 0.5, y, max(each_px - 1, 0.8), tall, colour(n, series.name)))
            named = [f"{series.name}: {series.counts[i]:,}" for series in found.series if series.counts.get(i)]
            title = f"{start:%Y-%m-%d %H:%M:%S} UTC, {formats.duration(found.slice_s)}: {heights[i]:,} messages"
            yield with_title("\n".join([title, *named]), parts)
        yield line(_LEFT, base, _WIDTH - 8, base, "axis")
        yield from _times(found, each_px, base)

    label = f"Messages in each {formats.duration(found.slice_s)}, stacked by pattern"
    keys = [(series.name, colour(n, series.name)) for n, series in enumerate(found.series)]
    return f"<figure>{picture(_WIDTH, height, label, pieces())}{legend(keys)}</figure>"


def _times(found: Timeline, each_px: float, base: float) -> Iterator[str]:
    span_s = found.slices * found.slice_s
    step_s = next((step for step in _STEPS_S if span_s / step <= _LABELS), _STEPS_S[-1])
    start_s = int((found.start - EPOCH).total_seconds())
    at_s = ceil(start_s / step_s) * step_s
    shown_day = None
    while at_s < start_s + span_s:
        x = _LEFT + (at_s - start_s) / found.slice_s * each_px
        at = EPOCH + timedelta(seconds=at_s)
        yield line(x, base, x, base + 5, "axis")
        # The last label would not fit.
        anchor = "end" if x > _WIDTH - 40 else "middle"
        if step_s >= DAY_S:
            yield text(x, base + 18, formats.day(at), "t faint", anchor)
        else:
            yield text(x, base + 17, f"{at:%H:%M:%S}" if step_s < 60 else f"{at:%H:%M}", "t faint", anchor)
            if at.date() != shown_day:
                yield text(x, base + 30, formats.day(at), "t faint", anchor)
                shown_day = at.date()
        at_s += step_s


def _nice(most: float) -> tuple[float, float]:
    """A step of an axis, and where the axis ends."""
    if most <= 0:
        return 1, _TICKS
    rough = most / _TICKS
    scale = 10.0 ** (len(str(int(rough))) - 1) if rough >= 1 else 1.0
    step = next(scale * factor for factor in (1, 2, 2.5, 5, 10) if scale * factor >= rough)
    step = max(1.0, step)
    return step, step * ceil(most / step)


# ---- payload sizes


def size_chart(found: Sizes) -> str:
    height, bottom, top = 256, 30, 50
    lowest, highest = min(found.bins), max(found.bins)
    total = sum(found.bins.values())
    most = max(found.bins.values())
    count = max(highest - lowest + 1, 6)
    each_px = (_WIDTH - 16) / count
    room_px, base = height - bottom - top, height - bottom

    def place(size_bytes: int) -> float:
        at = 0.0 if size_bytes == 0 else log2(size_bytes) + 1
        return 8 + (min(at, highest + 0.98) - lowest) * each_px

    def pieces() -> Iterator[str]:
        for i in range(count):
            power = lowest + i
            n = found.bins.get(power, 0)
            x = 8 + i * each_px
            tall = room_px * n / most
            low, high = (0, 0) if power == 0 else (2 ** (power - 1), 2**power - 1)
            title = f"{low:,} to {high:,} bytes: {n:,} messages, {formats.share(n, total)}"
            yield with_title(
                title, [bar(x + 1.5, base - tall, each_px - 3, max(tall, 1.5 if n else 0), "c2", round_px=2)]
            )
            if n:
                yield text(x + each_px / 2, base - tall - 5, formats.share(n, total), "t small", "middle")
            yield text(x, base + 18, "0" if power == 0 else formats.binary_size(low), "t faint small", "start")
        yield line(8, base, _WIDTH - 8, base, "axis")
        for name, mark in (("median", found.median), ("99 %", found.p99)):
            x = place(mark)
            yield line(x, 4, x, base, "mark")
            side = "end" if x > _WIDTH - 160 else "start"
            yield text(x + (-5 if side == "end" else 5), 14, f"{name} {formats.size(mark)}", "t small mark-text", side)

    return f"<figure>{picture(_WIDTH, height, 'Messages by size of payload', pieces())}</figure>"


# ---- hours of the day


def hour_chart(hours: dict[tuple[int, int], int]) -> str:
    days = sorted({day for day, _hour in hours})
    if len(days) <= _DAYS:
        every = range(days[0], days[-1] + 1)
        rows = [
            (formats.day(EPOCH + timedelta(days=day)), [hours.get((day, hour), 0) for hour in range(24)])
            for day in every
        ]
        if len(rows) <= _DAYS:
            return _heat(rows, "messages")
    sums: dict[tuple[int, int], int] = {}
    for (day, hour), n in hours.items():
        # 1970 began on a Thursday.
        key = ((day + 3) % 7, hour)
        sums[key] = sums.get(key, 0) + n
    weeks = max(1, ceil((days[-1] - days[0] + 1) / 7))
    rows = [(name, [round(sums.get((i, hour), 0) / weeks) for hour in range(24)]) for i, name in enumerate(_WEEK)]
    return _heat(rows, "messages a week")


def _heat(rows: list[tuple[str, list[int]]], unit: str) -> str:
    left, cell_px, tall_px, top = 86, 32.5, 22, 22
    sums_at = left + 24 * cell_px + 12
    most = max(max(counts) for _name, counts in rows) or 1
    largest = max(sum(counts) for _name, counts in rows) or 1
    height = int(top + len(rows) * tall_px + 6)

    def pieces() -> Iterator[str]:
        for hour in range(24):
            yield text(left + hour * cell_px + cell_px / 2, top - 8, f"{hour:02d}", "t faint small", "middle")
        for i, (name, counts) in enumerate(rows):
            y = top + i * tall_px
            yield text(left - 10, y + tall_px / 2 + 4, name, "t small", "end")
            for hour, n in enumerate(counts):
                x = left + hour * cell_px
                kind, opacity = ("heat", 0.1 + 0.9 * n / most) if n else ("none", 1.0)
                title = f"{name}, {hour:02d}:00 to {hour + 1:02d}:00: {n:,} {unit}"
                yield with_title(
                    title, [bar(x + 1, y + 1, cell_px - 2, tall_px - 2, kind, opacity=opacity, round_px=2)]
                )
            whole = sum(counts)
            yield bar(sums_at, y + 5, 56 * whole / largest, tall_px - 10, "c1", round_px=2)
            yield text(
                sums_at + 56 * whole / largest + 4, y + tall_px / 2 + 4, formats.tick(_short(whole)), "t faint small"
            )

    return f"<figure>{picture(_WIDTH, height, 'Messages by hour of the day', pieces())}</figure>"


def _short(count: int) -> float:
    """Two digits are enough for the label of a bar."""
    return float(f"{count:.2g}") if count >= 1000 else count


# ---- pieces of SVG; colours are names of classes, so that the page's light or dark style decides them


def picture(width: int, height: int, label: str, pieces: Iterable[str]) -> str:
    """As wide as the page lets it; `label` is for those who do not see it."""
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}" '
        f'preserveAspectRatio="xMidYMid meet">{"".join(pieces)}</svg>'
    )


def bar(
    x: float, y: float, width: float, height: float, kind: str, *, opacity: float = 1.0, round_px: float = 0
) -> str:
    more = f' fill-opacity="{opacity:.2f}"' if opacity < 1 else ""
    more += f' rx="{round_px:g}"' if round_px else ""
    size = f'width="{max(0.0, width):.1f}" height="{max(0.0, height):.1f}"'
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" {size}{more}/>'


def text(x: float, y: float, words: str, kind: str = "t", anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str = "grid") -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def with_title(title: str, pieces: Iterable[str]) -> str:
    """Pieces that say something when pointed at."""
    return f"<g><title>{escape(title)}</title>{''.join(pieces)}</g>"
