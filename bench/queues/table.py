"""The tables."""

from __future__ import annotations

from bench.queues import rows
from bench.queues.collect import Results
from bench.storage.rows import PER_SECOND
from bench.storage.table import Block, number

CAPTION = (
    "Messages have 64 random bytes of payload. Gathered: calls of 2,000 messages, for as many clients as there "
    "are. Awaited: calls of one message. PostgreSQL syncs every transaction, the journal every call, Redis its "
    "file once a second. Through a broker: QoS 1, with up to 10,000 messages on their way, and every subscriber's "
    "queue in that backend; in brackets, how many times what PostgreSQL lets through. What is written to disk is "
    "measured with payloads of 512 bytes in 100 queues that are filled and drained once, every 500 messages synced."
)


def blocks(results: Results, clients: tuple[int, ...], pairs: tuple[int, ...]) -> list[Block]:
    heads = [f"{count:,} client{'s' if count > 1 else ''}" for count in clients]
    found: list[Block] = []
    for kind, label in rows.KINDS.items():
        lines = [(rows.BACKENDS[backend], *_cells(results, backend, clients, kind)) for backend in rows.BACKENDS]
        if kind == "batched":
            lines += [
                (rows.TBMQ_LABEL, *_cells(results, rows.TBMQ, clients, kind)),
                ("Redis against that", *[_ratio(results, count) for count in clients]),
            ]
        found.append(Block((label, *heads), tuple(lines)))
    costs = [
        ("Redis: commands", *_counts(results, "redis", clients, "commands")),
        (f"{rows.TBMQ_LABEL}: commands", *_counts(results, rows.TBMQ, clients, "commands")),
        ("journal files: syncs", *_counts(results, "journal", clients, "syncs")),
    ]
    found.append(Block(("per message", *heads), tuple(costs)))
    found.append(_through(results, pairs))
    written = [
        (label, *[f"{results[f'written/{writer}/{name}']:.2f}" for name in rows.WRITTEN])
        for writer, label in rows.WRITERS.items()
    ]
    found.append(Block(("written to disk", *rows.WRITTEN.values()), tuple(written)))
    return found


def _through(results: Results, pairs: tuple[int, ...]) -> Block:
    """Messages per second, and how many times what PostgreSQL lets through."""
    lines = []
    for backend, label in rows.THROUGH.items():
        cells = []
        for count in pairs:
            rate, base = results.get(f"through/{backend}/{count}"), results.get(f"through/postgres/{count}")
            ratio = f" ({rate / base:.2f})" if rate is not None and base is not None else ""
            cells.append("not there" if rate is None else f"{number(rate, PER_SECOND)}{ratio}")
        told = rows.REPORTED.get(backend)
        lines.append((label, *cells, f"{told / rows.REPORTED['postgres']:.2f}" if told else ""))
    heads = [f"{count:,} pairs" for count in pairs]
    return Block(("through a broker, point to point", *heads, "in TBMQ's report"), tuple(lines))


def _cells(results: Results, backend: str, clients: tuple[int, ...], kind: str) -> list[str]:
    values = [results.get(f"{backend}/{count}/{kind}") for count in clients]
    return ["not there" if value is None else number(value, PER_SECOND) for value in values]


def _counts(results: Results, backend: str, clients: tuple[int, ...], kind: str) -> list[str]:
    values = [results.get(f"{backend}/{count}/{kind}") for count in clients]
    return ["not there" if value is None else f"{value:.3g}" for value in values]


def _ratio(results: Results, clients: int) -> str:
    ours, theirs = results.get(f"redis/{clients}/batched"), results.get(f"{rows.TBMQ}/{clients}/batched")
    return "not there" if ours is None or theirs is None else f"{ours / theirs:.1f} times"
