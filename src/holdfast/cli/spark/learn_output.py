"""What `holdfast spark learn` prints: tables for people, plain values for machines."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.cli.output.text import format_size

if TYPE_CHECKING:
    from holdfast.history.patterns import PatternMeasurement
    from holdfast.pipeline.learn.description import ExplainedPattern
    from holdfast.pipeline.learn.job import LearnOutcome

#: Rows that people look at; `-o` and `--json` have them all.
_SHOWN: Final = 40
#: Wide enough for a line of explanation where standard output is no terminal.
_WIDTH: Final = 160


def print_learnt(result: "LearnOutcome") -> None:
    """A table of patterns with their explanations, and one of those that are in doubt."""
    sure = [one for one in result.found if one.is_sure]
    unsure = [one for one in result.found if not one.is_sure]
    _print("", sure, with_zone=len({one.pattern.zone for one in result.found}) > 1)
    _print("not sure", unsure, with_zone=len({one.pattern.zone for one in result.found}) > 1)
    outside = result.outside
    if outside.topics:
        size = f"topics that are too long or too deep to follow a pattern: {outside.topics:,}"
        _console().print(f"{size}, with {outside.messages:,} messages", highlight=False)


def _print(title: str, found: "Sequence[ExplainedPattern]", *, with_zone: bool) -> None:
    if not found:
        return
    table = Table(box=None, pad_edge=False, title=title or None, title_justify="left")
    for name in (
        *(("zone",) if with_zone else ()),
        "pattern",
        ">topics",
        ">messages",
        ">share",
        ">payload",
        "about it",
    ):
        table.add_column(
            name.removeprefix(">"),
            justify="right" if name.startswith(">") else "left",
            no_wrap=name.startswith(">"),
            overflow="fold",
        )
    for one in found[:_SHOWN]:
        pattern = one.pattern
        about = [*one.against, *([] if one.against else [one.words]), *one.near]
        table.add_row(
            *((Text(pattern.zone),) if with_zone else ()),
            Text(pattern.text),
            f"{pattern.topics:,}",
            f"{pattern.messages:,}",
            f"{one.share:.1%}",
            format_size(pattern.size_bytes),
            Text("; ".join(about)),
        )
    _console().print(table)
    if len(found) > _SHOWN:
        _console().print(f"… and {len(found) - _SHOWN} more; all are in --json and -o FILE", highlight=False)


def print_measured(measured: "Sequence[PatternMeasurement]") -> None:
    """What patterns would bring, zone by zone."""
    for one in measured:
        title = f"zone {one.zone}: {one.messages:,} messages of shard {one.shard}"
        table = Table(box=None, pad_edge=False, title=title, title_justify="left")
        table.add_column("")
        for name in one.trials:
            table.add_column(name, justify="right")
        trials = list(one.trials.values())
        table.add_row("streams", *[f"{trial.streams:,}" for trial in trials])
        table.add_row("bytes per message on disk", *[f"{trial.bytes_per_message:.1f}" for trial in trials])
        table.add_row("write, CPU µs per message", *[f"{trial.write_cpu_us:.1f}" for trial in trials])
        for i, answer in enumerate(trials[0].answers):
            name = f"{answer.name} ({answer.messages:,.0f} messages)"
            table.add_row(f"{name}: CPU ms", *[f"{trial.answers[i].cpu_ms:.2f}" for trial in trials])
            table.add_row("    seeks", *[f"{trial.answers[i].seeks:,.0f}" for trial in trials])
            table.add_row("    messages fetched by key", *[f"{trial.answers[i].fetches:,.0f}" for trial in trials])
        _console().print(table)


def what_happens(zones: dict[str, list[str]], *, applied: bool) -> str:
    if not zones:
        return "nothing is sure enough for the next generation to begin with"
    count = sum(map(len, zones.values()))
    patterns = f"{count} pattern{'' if count == 1 else 's'}"
    if applied:
        return f"applied: the next generation begins with {patterns}, within a second if the broker runs"
    return f"with --apply, the next generation would begin with {patterns}"


# ---- for machines


def row_of(result: "LearnOutcome", zones: dict[str, list[str]]) -> dict[str, object]:
    return {
        "messages": result.messages,
        "topics": result.topics,
        "bytes": result.size_bytes,
        "zones": zones,
        "patterns": [_plain(one) for one in result.found],
        "outside": result.outside._asdict(),
    }


def _plain(one: "ExplainedPattern") -> dict[str, object]:
    pattern = one.pattern
    return {
        "zone": pattern.zone,
        "pattern": pattern.text,
        "topics": pattern.topics,
        "messages": pattern.messages,
        "bytes": pattern.size_bytes,
        "share": round(one.share, 6),
        "sure": one.is_sure,
        "words": one.words,
        "doubts": [*one.against, *one.near],
        "levels": [
            {
                "level": level.depth + 1,
                "values": level.values,
                "entropy_bits": level.entropy_bits,
                "looks": level.looks,
                "first": level.first,
                "last": level.last,
            }
            for level in pattern.varying
        ],
    }


def figures_of(measured: "PatternMeasurement") -> dict[str, object]:
    return {
        "zone": measured.zone,
        "shard": measured.shard,
        "messages": measured.messages,
        "trials": {
            name: trial._asdict() | {"answers": [answer._asdict() for answer in trial.answers]}
            for name, trial in measured.trials.items()
        },
    }


def _console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=_WIDTH)
