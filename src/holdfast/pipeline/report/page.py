"""A report as one page of HTML: everything is in the file, nothing is fetched, and no script runs."""

from html import escape
from pathlib import Path
from typing import Final

from holdfast import __version__
from holdfast.pipeline.report import formats
from holdfast.pipeline.report.charts import colour, hour_chart, size_chart, timeline_chart
from holdfast.pipeline.report.figures import Figures, QueueFigures, Silence, TrafficShare
from holdfast.pipeline.report.formats import name, shared, strip, table, tiles

_STYLE: Final = Path(__file__).with_name("style.css")
_GAP: Final = 10


def section(key: str, title: str, note: str, *parts: str) -> str:
    return f'<section id="{key}"><h2>{escape(title)}</h2><p class="note">{escape(note)}</p>{"".join(parts)}</section>'


def _halves(left: str, right: str) -> str:
    """Side by side, if there is room."""
    return f'<div class="two"><div>{left}</div><div>{right}</div></div>'


def _empty(said: str) -> str:
    return f'<p class="empty">{escape(said)}</p>'


# ---- messages


def header(found: Figures) -> str:
    totals = found.totals
    rate = totals.messages / totals.span_s if totals.span_s else 0.0
    mean = totals.size_bytes / totals.messages if totals.messages else 0.0
    between = f"{formats.moment(totals.first)} to {formats.moment(totals.last)} UTC" if totals.first else "no messages"
    shown = tiles(
        [
            (
                "Messages",
                formats.number(totals.messages),
                f"{rate:,.2g} a second" if rate < 10 else f"{rate:,.0f} a second",
            ),
            ("Payload", formats.size(totals.size_bytes), f"{formats.size(mean)} a message"),
            ("Topics", formats.number(totals.topics), formats.several(found.pattern_count, "pattern")),
            ("Publishers", formats.number(totals.publishers), "by client id"),
            ("Span", formats.duration(totals.span_s), "first to last message"),
            ("Sessions", formats.number(found.broker.sessions), f"{found.broker.connected:,} connected"),
        ]
    )
    return f"<header><h1>{escape(found.title)}</h1><p>{between}<br>{escape(found.source)}</p></header>{shown}"


def traffic_section(found: Figures) -> str:
    totals = found.totals
    if found.timeline is None:
        return section("traffic", "Traffic over time", "", _empty("No messages in this time."))
    by_qos = strip([(f"QoS {level}", totals.qos[level], ("c0", "c1", "c2")[level]) for level in range(3)])
    by_zone = strip([(zone.name, zone.messages, f"c{i % 7 + 1}") for i, zone in enumerate(found.zones)])
    retain, expiring = (formats.share(count, totals.messages) for count in (totals.retain, totals.expiring))
    flags = f"{retain} of them were published with the retain flag, {expiring} with an expiry."
    return section(
        "traffic",
        "Traffic over time",
        f"Messages in each {formats.duration(found.timeline.slice_s)}, by learned pattern. {flags}",
        timeline_chart(found.timeline),
        _halves(f"<h3>Quality of service</h3>{by_qos}", f"<h3>Zones</h3>{by_zone}"),
    )


def pattern_section(found: Figures) -> str:
    totals = found.totals
    named = [series.name for series in found.timeline.series] if found.timeline else []
    rows = [
        (
            name(share.name),
            formats.number(share.topics),
            formats.number(share.publishers),
            formats.number(share.messages),
            shared(share.messages, totals.messages, _kind(named, share.name)),
            formats.size(share.size_bytes),
            shared(share.size_bytes, totals.size_bytes, _kind(named, share.name)),
        )
        for share in found.patterns
    ]
    hidden = found.pattern_count - len(rows)
    more = f" {formats.number(hidden)} less busy ones are not shown." if hidden > 0 else ""
    heads = ("pattern", "topics", "publishers", "messages", "of messages", "payload", "of payload")
    return section(
        "patterns",
        "Learned patterns",
        f"What the broker has learnt about the topics: + stands for a level with many values.{more}",
        table(heads, rows, (1, 2, 3, 5)) if rows else _empty("No topics."),
    )


def _kind(named: list[str], pattern: str) -> str:
    return colour(named.index(pattern), pattern) if pattern in named else "c0"


def heaviest_section(found: Figures) -> str:
    def rows(shares: list[TrafficShare]) -> list[tuple[str, ...]]:
        whole = found.totals.size_bytes
        return [
            (name(one.name), formats.number(one.messages), formats.size(one.size_bytes), shared(one.size_bytes, whole))
            for one in shares
        ]

    def half(title: str, what: str, shares: list[TrafficShare]) -> str:
        shown = table((what, "messages", "payload", "of payload"), rows(shares), (1, 2)) if shares else _empty("None.")
        return f"<h3>{title}</h3>{shown}"

    return section(
        "heaviest",
        "Heaviest topics and publishers",
        "By bytes of payload.",
        _halves(half("Topics", "topic", found.topics), half("Publishers", "client", found.publishers)),
    )


def size_section(found: Figures) -> str:
    sizes = found.sizes
    if sizes is None:
        return section("sizes", "Payload sizes", "", _empty("No messages."))
    note = (
        f"Half of all payloads have {formats.size(sizes.median)} or less, 90 % {formats.size(sizes.p90)}, "
        f"99 % {formats.size(sizes.p99)}; the largest has {formats.size(sizes.largest)}."
    )
    return section("sizes", "Payload sizes", note, size_chart(sizes))


def hour_section(found: Figures) -> str:
    if not found.hours:
        return section("hours", "Hours of the day", "", _empty("No messages."))
    note = f"Messages by day and hour (UTC). The busiest hour had {formats.number(max(found.hours.values()))}."
    return section("hours", "Hours of the day", note, hour_chart(found.hours))


# ---- devices


def silence_section(found: Figures) -> str:
    rows = [
        (
            name(one.client_id),
            formats.number(one.messages),
            formats.duration(one.usual_s),
            formats.duration(one.longest_s),
            f"{formats.moment(one.since)} → {formats.moment(one.until)}",
            formats.number(one.gaps),
            _state(one),
        )
        for one in found.silences
    ]
    heads = ("client", "messages", "usual step", "longest silence", "from → to", "gaps", "at the end")
    shown = table(heads, rows, (1, 2, 3, 5)) if rows else _empty("No client has published more than twice.")
    note = f"A gap is a silence of more than {_GAP} times what is usual for a publisher; the most unusual come first."
    return section("silences", "Gaps and late data", note, shown, _late(found))


def _state(one: Silence) -> str:
    if one.quiet_s > one.usual_s * _GAP:
        return f'<span class="badge bad">silent for {formats.duration(one.quiet_s)}</span>'
    return '<span class="badge good">publishing</span>'


def _late(found: Figures) -> str:
    late = found.lateness
    if late is None:
        return "<h3>Late data</h3>" + _empty(
            "Payloads do not say when they were made (a number or a time in ts, time or timestamp), so nothing is late."
        )
    shown = tiles(
        [
            (
                "Messages with a time",
                formats.number(late.messages),
                formats.share(late.messages, found.totals.messages),
            ),
            ("Typical delay", formats.duration(late.median_s), "median"),
            ("99 % within", formats.duration(late.p99_s), "from made to stored"),
            ("Longest delay", formats.duration(late.largest_s), "from made to stored"),
            ("More than a minute late", formats.number(late.late), formats.share(late.late, late.messages)),
        ]
    )
    rows = [(name(client), formats.number(n), formats.duration(most)) for client, n, most in late.worst]
    worst = table(("client", "late messages", "longest delay"), rows, (1, 2)) if rows else ""
    return f'<h3>Late data</h3>{shown}<div class="narrow">{worst}</div>'


# ---- the broker


def dropped_section(found: Figures) -> str:
    most = max((one.count for one in found.reasons), default=0)
    rows = [
        (
            f"<code>{escape(one.reason)}</code>",
            f'<span class="wrap">{escape(one.words)}</span>',
            formats.number(one.count),
            shared(one.count, most, "c6", with_number=False),
            formats.moment(one.last),
            f'<span class="wrap">{_concerned(one.clients)}</span>',
        )
        for one in found.reasons
    ]
    heads = ("reason", "what happened", "count", "", "last", "most concerned")
    return section(
        "dropped",
        "Dropped, refused and ended",
        "By reason, as far as the broker's events reach.",
        table(heads, rows, (2,)) if rows else _empty("Nothing was dropped, refused or ended."),
    )


def _concerned(clients: list[tuple[str, int]]) -> str:
    return (
        ", ".join(f"{name(client)} {formats.number(count)}" for client, count in clients) or "no client in particular"
    )


def broker_section(found: Figures) -> str:
    one = found.broker
    shown = tiles(
        [
            ("Sessions", formats.number(one.sessions), f"{one.connected:,} connected"),
            ("Offline", formats.number(one.sessions - one.connected), "kept for their return"),
            ("Subscriptions", formats.number(one.subscriptions), formats.several(one.groups, "shared group")),
            ("Wills", formats.number(one.wills), "waiting"),
            ("Retained", formats.number(one.retained), f"{formats.size(one.retained_bytes)}"),
        ]
    )
    queues = [_queue(queue) for queue in one.queues]
    heads = ("owed to", "state", "at most", "since", "in flight")
    owed = table(heads, queues, (2, 4)) if queues else _empty("Everybody has everything.")
    trees = [
        (
            name(f"{tree.name}/…"),
            formats.number(tree.messages),
            formats.size(tree.size_bytes),
            shared(tree.messages, one.retained),
        )
        for tree in one.retained_trees
    ]
    kept = table(("topics", "retained", "payload", "of retained"), trees, (1, 2)) if trees else _empty("None.")
    return section(
        "sessions",
        "Sessions and retained messages",
        "As of now. What is owed at most are all messages behind a session's place in the log, whatever their topic.",
        shown,
        _halves(f"<h3>Who is owed messages</h3>{owed}", f"<h3>Retained messages</h3>{kept}"),
    )


def _queue(queue: QueueFigures) -> tuple[str, ...]:
    state = "group" if queue.connected is None else "connected" if queue.connected else "offline"
    kind = " good" if queue.connected else ""
    return (
        name(queue.owner),
        f'<span class="badge{kind}">{state}</span>',
        formats.number(queue.at_most),
        formats.moment(queue.behind_since),
        formats.number(queue.inflight),
    )


# ---- the page

_SECTIONS: Final = (
    header,
    traffic_section,
    pattern_section,
    heaviest_section,
    size_section,
    hour_section,
    silence_section,
    dropped_section,
    broker_section,
)


def render_page(found: Figures) -> str:
    style = _STYLE.read_text(encoding="utf-8")
    body = "\n".join(make(found) for make in _SECTIONS)
    made = (
        f"Made by Holdfast {escape(__version__)} on {formats.moment(found.made)} UTC. "
        "All times are in UTC; sizes are those of payloads."
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        # Without an icon in the page a browser asks for one.
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
        f"<title>{escape(found.title)}</title><style>\n{style}</style></head>\n<body><main>\n"
        f"{body}\n<footer>{made}</footer>\n</main></body></html>\n"
    )
