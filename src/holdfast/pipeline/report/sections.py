"""The sections of a report: what each shows, in which order, and what it says when there is nothing to show."""

from html import escape
from typing import Final

from holdfast.pipeline.report import words
from holdfast.pipeline.report.charts import colour, hour_chart, size_chart, timeline_chart
from holdfast.pipeline.report.figures import Figures, Queued, Share, Silence
from holdfast.pipeline.report.tables import name, shared, strip, table, tiles

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
    between = f"{words.moment(totals.first)} to {words.moment(totals.last)} UTC" if totals.first else "no messages"
    shown = tiles(
        [
            (
                "Messages",
                words.number(totals.messages),
                f"{rate:,.2g} a second" if rate < 10 else f"{rate:,.0f} a second",
            ),
            ("Payload", words.size(totals.size_bytes), f"{words.size(mean)} a message"),
            ("Topics", words.number(totals.topics), words.several(found.pattern_count, "pattern")),
            ("Publishers", words.number(totals.publishers), "by client id"),
            ("Span", words.duration(totals.span_s), "first to last message"),
            ("Sessions", words.number(found.beside.sessions), f"{found.beside.connected:,} connected"),
        ]
    )
    return f"<header><h1>{escape(found.title)}</h1><p>{between}<br>{escape(found.source)}</p></header>{shown}"


def traffic_section(found: Figures) -> str:
    totals = found.totals
    if found.timeline is None:
        return section("traffic", "Traffic over time", "", _empty("No messages in this time."))
    by_qos = strip([(f"QoS {level}", totals.qos[level], ("c0", "c1", "c2")[level]) for level in range(3)])
    by_zone = strip([(zone.name, zone.messages, f"c{i % 7 + 1}") for i, zone in enumerate(found.zones)])
    retain, expiring = (words.share(count, totals.messages) for count in (totals.retain, totals.expiring))
    flags = f"{retain} of them were published with the retain flag, {expiring} with an expiry."
    return section(
        "traffic",
        "Traffic over time",
        f"Messages in each {words.duration(found.timeline.slice_s)}, by learned pattern. {flags}",
        timeline_chart(found.timeline),
        _halves(f"<h3>Quality of service</h3>{by_qos}", f"<h3>Zones</h3>{by_zone}"),
    )


def pattern_section(found: Figures) -> str:
    totals = found.totals
    named = [series.name for series in found.timeline.series] if found.timeline else []
    rows = [
        (
            name(share.name),
            words.number(share.topics),
            words.number(share.publishers),
            words.number(share.messages),
            shared(share.messages, totals.messages, _kind(named, share.name)),
            words.size(share.size_bytes),
            shared(share.size_bytes, totals.size_bytes, _kind(named, share.name)),
        )
        for share in found.patterns
    ]
    hidden = found.pattern_count - len(rows)
    more = f" {words.number(hidden)} less busy ones are not shown." if hidden > 0 else ""
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
    def rows(shares: list[Share]) -> list[tuple[str, ...]]:
        whole = found.totals.size_bytes
        return [
            (name(one.name), words.number(one.messages), words.size(one.size_bytes), shared(one.size_bytes, whole))
            for one in shares
        ]

    def half(title: str, what: str, shares: list[Share]) -> str:
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
        f"Half of all payloads have {words.size(sizes.median)} or less, 90 % {words.size(sizes.p90)}, "
        f"99 % {words.size(sizes.p99)}; the largest has {words.size(sizes.largest)}."
    )
    return section("sizes", "Payload sizes", note, size_chart(sizes))


def hour_section(found: Figures) -> str:
    if not found.hours:
        return section("hours", "Hours of the day", "", _empty("No messages."))
    note = f"Messages by day and hour (UTC). The busiest hour had {words.number(max(found.hours.values()))}."
    return section("hours", "Hours of the day", note, hour_chart(found.hours))


# ---- devices


def silence_section(found: Figures) -> str:
    rows = [
        (
            name(one.client_id),
            words.number(one.messages),
            words.duration(one.usual_s),
            words.duration(one.longest_s),
            f"{words.moment(one.since)} → {words.moment(one.until)}",
            words.number(one.gaps),
            _state(one),
        )
        for one in found.silences
    ]
    heads = ("client", "messages", "usual step", "longest silence", "from → to", "gaps", "at the end")
    shown = table(heads, rows, (1, 2, 3, 5)) if rows else _empty("Nobody has published more than twice.")
    note = f"A gap is a silence of more than {_GAP} times what is usual for a publisher; the most unusual come first."
    return section("silences", "Gaps and late data", note, shown, _late(found))


def _state(one: Silence) -> str:
    if one.quiet_s > one.usual_s * _GAP:
        return f'<span class="badge bad">silent for {words.duration(one.quiet_s)}</span>'
    return '<span class="badge good">publishing</span>'


def _late(found: Figures) -> str:
    late = found.lateness
    if late is None:
        return "<h3>Late data</h3>" + _empty(
            "Payloads do not say when they were made (a number or a time in ts, time or timestamp), so nothing is late."
        )
    shown = tiles(
        [
            ("Messages with a time", words.number(late.messages), words.share(late.messages, found.totals.messages)),
            ("Typical delay", words.duration(late.median_s), "median"),
            ("99 % within", words.duration(late.p99_s), "from made to stored"),
            ("Longest delay", words.duration(late.largest_s), "from made to stored"),
            ("More than a minute late", words.number(late.late), words.share(late.late, late.messages)),
        ]
    )
    rows = [(name(client), words.number(n), words.duration(most)) for client, n, most in late.worst]
    worst = table(("client", "late messages", "longest delay"), rows, (1, 2)) if rows else ""
    return f'<h3>Late data</h3>{shown}<div class="narrow">{worst}</div>'


# ---- the broker


def dropped_section(found: Figures) -> str:
    most = max((one.count for one in found.reasons), default=0)
    rows = [
        (
            f"<code>{escape(one.reason)}</code>",
            f'<span class="wrap">{escape(one.words)}</span>',
            words.number(one.count),
            shared(one.count, most, "c6", with_number=False),
            words.moment(one.last),
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
    return ", ".join(f"{name(client)} {words.number(count)}" for client, count in clients) or "nobody in particular"


def beside_section(found: Figures) -> str:
    one = found.beside
    shown = tiles(
        [
            ("Sessions", words.number(one.sessions), f"{one.connected:,} connected"),
            ("Offline", words.number(one.sessions - one.connected), "kept for their return"),
            ("Subscriptions", words.number(one.subscriptions), words.several(one.groups, "shared group")),
            ("Wills", words.number(one.wills), "waiting"),
            ("Retained", words.number(one.retained), f"{words.size(one.retained_bytes)}"),
        ]
    )
    queues = [_queue(queue) for queue in one.queues]
    heads = ("owed to", "state", "at most", "since", "in flight")
    owed = table(heads, queues, (2, 4)) if queues else _empty("Everybody has everything.")
    trees = [
        (
            name(f"{tree.name}/…"),
            words.number(tree.messages),
            words.size(tree.size_bytes),
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


def _queue(queue: Queued) -> tuple[str, ...]:
    state = "group" if queue.connected is None else "connected" if queue.connected else "offline"
    kind = " good" if queue.connected else ""
    return (
        name(queue.owner),
        f'<span class="badge{kind}">{state}</span>',
        words.number(queue.at_most),
        words.moment(queue.behind_since),
        words.number(queue.inflight),
    )
