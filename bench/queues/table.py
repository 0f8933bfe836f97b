"""The tables."""

from __future__ import annotations

from bench.queues import rows
from bench.queues.collect import Results
from bench.storage.rows import PER_SECOND
from bench.storage.table import Block, number

CAPTION = (
    "Messages have 64 random bytes of payload. Gathered: calls of 2,000 messages, for as many clients as there "
    "are. Awaited: calls of one message. PostgreSQL syncs every transaction, the journal every call, Redis its "
    "file once a second. What is written to disk is measured with payloads of 512 bytes in 100 queues that are filled "
    "and drained once, every 500 messages synced."
)


def blocks(results: Results, clients: tuple[int, ...]) -> list[Block]:
    heads = [f"{count:,} client{'s' if count > 1 else ''}" for count in clients]
    found: list[Block] = []
    for kind, label in rows.KINDS.items():
        lines = [(rows.HOMES[home], *_cells(results, home, clients, kind)) for home in rows.HOMES]
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
    if "steps/postgres" in results:
        first = results["steps/postgres"]
        base = rows.STEPS["postgres"][1]
        steps = [
            (label, number(results[f"steps/{name}"], PER_SECOND), f"{results[f'steps/{name}'] / first:.2f}",
             f"{told / base:.2f}") for name, (label, told) in rows.STEPS.items()
        ]  # fmt: skip
        found.append(Block(("clients of servers", "measured", "as a ratio", "in TBMQ's report"), tuple(steps)))
    written = [
        (label, *[f"{results[f'written/{writer}/{name}']:.2f}" for name in rows.WRITTEN])
        for writer, label in rows.WRITERS.items()
    ]
    found.append(Block(("written to disk", *rows.WRITTEN.values()), tuple(written)))
    return found


def _cells(results: Results, home: str, clients: tuple[int, ...], kind: str) -> list[str]:
    values = [results.get(f"{home}/{count}/{kind}") for count in clients]
    return ["not there" if value is None else number(value, PER_SECOND) for value in values]


def _counts(results: Results, home: str, clients: tuple[int, ...], kind: str) -> list[str]:
    values = [results.get(f"{home}/{count}/{kind}") for count in clients]
    return ["not there" if value is None else f"{value:.3g}" for value in values]


def _ratio(results: Results, clients: int) -> str:
    ours, theirs = results.get(f"redis/{clients}/batched"), results.get(f"{rows.TBMQ}/{clients}/batched")
    return "not there" if ours is None or theirs is None else f"{ours / theirs:.1f} times"
