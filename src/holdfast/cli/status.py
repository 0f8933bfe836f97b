"""`holdfast status`, `health` and `reload`: a running broker, asked by its control socket.

Exit codes: 0 done, 1 no broker runs or it is not well, 2 wrong usage.
"""

import json
from typing import Final

import msgspec
import typer

from holdfast.cli.commands import FAILED
from holdfast.cli.options.control_client import ControlClient, RunningBroker
from holdfast.cli.options.groups import Json, grouped
from holdfast.cli.output.text import format_duration, format_size
from holdfast.control.frames import decode_body
from holdfast.control.metrics import METRICS
from holdfast.control.words import STATS, Histogram, NodeInfo, Nothing, Reloaded, Stats, Watch
from holdfast.model.time import SECOND_US

_TAKING: Final = "taking"


@grouped
def status(broker: RunningBroker, as_json: Json = False) -> None:
    """Print how a running broker is: its state, rates of the last second, clients, commits and disk."""
    with broker.connected() as client:
        node = client.ask("node", Nothing(), NodeInfo)
        first, last = _two_frames(client)
    rates = counter_rates(first, last)
    if as_json:
        typer.echo(
            json.dumps(
                {
                    **msgspec.to_builtins(node),
                    "numbers": last.numbers,
                    "labelled": last.labelled,
                    "histograms": msgspec.to_builtins(last.histograms),
                    "rates": rates,
                },
                indent=2,
                ensure_ascii=False,
            )
        )
        return
    for name, text in _lines(node, first, last, rates):
        typer.echo(f"{name:<10}{text}")


@grouped
def health(broker: RunningBroker, as_json: Json = False) -> None:
    """Exit with status 0 if a broker runs and takes messages, with 1 if it does not; say why."""
    with broker.connected() as client:
        node = client.ask("node", Nothing(), NodeInfo)
    is_well = node.state == _TAKING
    if as_json:
        typer.echo(json.dumps({"ok": is_well, "state": node.state, "detail": node.detail}, ensure_ascii=False))
    else:
        typer.echo("taking messages" if is_well else f"{node.state}: {node.detail}")
    if not is_well:
        raise typer.Exit(FAILED)


@grouped
def reload(broker: RunningBroker, as_json: Json = False) -> None:
    """Have a running broker read settings, passwords, access rules, blocks and certificates again; say what changed."""
    with broker.connected() as client:
        outcome = client.ask("reload", Nothing(), Reloaded)
    if as_json:
        typer.echo(json.dumps(msgspec.to_builtins(outcome), indent=2, ensure_ascii=False))
    else:
        for setting in outcome.changed:
            typer.echo(f"{setting.key}: {setting.before} → {setting.now}")
        for setting in outcome.waiting:
            typer.echo(f"{setting.key}: {setting.before} → {setting.now} after a restart")
        for part, why in outcome.errors.items():
            typer.echo(f"{part}: stays as it was: {why}")
        if not outcome.changed and not outcome.waiting and not outcome.errors:
            typer.echo("reloaded; no setting changed")
    if outcome.errors:
        raise typer.Exit(FAILED)


def _two_frames(client: ControlClient) -> tuple[Stats, Stats]:
    """Numbers twice, a second apart: rates are what lies between them."""
    client.ask("watch", Watch(stats=True), Nothing)
    frames = (decode_body(push.body, Stats) for push in client.pushes() if push.topic == STATS)
    return next(frames), next(frames)


def counter_rates(first: Stats, last: Stats) -> dict[str, float]:
    """By counter: per second between two frames."""
    seconds = max(1, last.at_us - first.at_us) / SECOND_US
    return {
        name: round((value - first.numbers.get(name, 0)) / seconds, 3)
        for name, value in last.numbers.items()
        if name.endswith("_total")
    }


def quantile(first: Histogram, last: Histogram, bounds: tuple[float, ...], share: float) -> float | None:
    """The bound below which a share of the values lies that came between two frames; None if none came."""
    counts = [after - before for before, after in zip(first.counts, last.counts, strict=True)]
    left = share * sum(counts)
    if not any(counts):
        return None
    for bound, count in zip(bounds, counts, strict=False):
        left -= count
        if left <= 0:
            return bound
    return float("inf")


def _lines(node: NodeInfo, first: Stats, last: Stats, rates: dict[str, float]) -> list[tuple[str, str]]:
    numbers, labelled = last.numbers, last.labelled
    sessions = labelled.get("sessions", {})
    mode = "compiled" if node.compiled else "interpreted"
    state = "taking messages" if node.state == _TAKING else f"{node.state.upper()}: {node.detail}"
    up = format_duration((node.now_us - node.started_us) / SECOND_US)
    lines = [
        ("broker", f"{state} · up {up} · {node.version} {mode} · pid {node.pid}"),
        ("data", f"{node.data_folder or 'in memory'} ({node.durability})"),
    ]
    lines += [
        ("listener", f"{one.name}: {one.kind} {one.host}:{one.port}, {one.connections} connections")
        for one in node.listeners
    ]
    lines += [
        ("in", _traffic(rates, "messages_received_total", "bytes_received_total")),
        ("out", _traffic(rates, "messages_sent_total", "bytes_sent_total")),
        ("clients", _clients(sessions, numbers)),
        ("commits", _commits(first, last, rates)),
        ("drops", _drops(first, last)),
    ]
    free, total = numbers.get("disk_free_bytes"), numbers.get("disk_total_bytes")
    if free is not None and total:
        stored = sum(labelled.get("stored_messages", {}).values())
        used = 100 * (1 - free / total)
        lines.append(("disk", f"{used:.0f} % used, {format_size(int(free))} free, {stored:,.0f} messages stored"))
    return lines


def _clients(sessions: dict[str, float], numbers: dict[str, float]) -> str:
    connected, offline = sessions.get("connected", 0), sessions.get("offline", 0)
    behind, inflight = numbers.get("clients_behind", 0), numbers.get("inflight_messages", 0)
    return f"{connected:.0f} connected, {offline:.0f} offline, {behind:.0f} behind, {inflight:.0f} messages in flight"


def _traffic(rates: dict[str, float], messages: str, size: str) -> str:
    return f"{rates.get(messages, 0):,.0f} messages/s, {format_size(int(rates.get(size, 0)))}/s"


def _commits(first: Stats, last: Stats, rates: dict[str, float]) -> str:
    text = f"{rates.get('commits_total', 0):,.0f}/s"
    name = "commit_seconds"
    if name in last.histograms and name in first.histograms:
        for label, share in (("p50", 0.5), ("p99", 0.99)):
            found = quantile(first.histograms[name], last.histograms[name], METRICS[name].bounds, share)
            text += "" if found is None else f", {label} ≤ {found * 1000:g} ms"
    return text


def _drops(first: Stats, last: Stats) -> str:
    before, after = (frame.labelled.get("drops_total", {}) for frame in (first, last))
    total = ", ".join(f"{reason} {count:,.0f}" for reason, count in sorted(after.items()))
    return f"{sum(after.values()) - sum(before.values()):,.0f}/s" + (f"; since the start {total}" if total else "")
