"""How long the control server holds the broker's loop, by the broker's own histogram, and what memory it costs."""

from __future__ import annotations

from collections.abc import Iterator

from bench.console.nodes import Node
from bench.console.quantiles import bucket_quantile
from holdfast.control.frames import decode_body
from holdfast.control.metrics import METRICS
from holdfast.control.words import CLIENTS, ClientRows, Nothing, Watch

_METRIC = "control_slice_seconds"


def read_snapshot(node: Node) -> int:
    """Have the broker list its clients once; how many there were."""
    count = 0
    with node.control() as client:
        client.ask("watch", Watch(clients=True), Nothing)
        for push in client.pushes():
            if push.topic == CLIENTS:
                rows = decode_body(push.body, ClientRows)
                count += len(rows.rows)
                if rows.last:
                    break
    return count


def holds(node: Node, clients: int, snapshots: int) -> Iterator[tuple[str, float]]:
    """Requires: nothing else is asked of the broker meanwhile."""
    bounds = METRICS[_METRIC].bounds
    before = node.stats().histograms[_METRIC].counts
    for _snapshot in range(snapshots):
        found = read_snapshot(node)
        if found < clients:
            connected = sum(node.stats().labelled["connections"].values())
            raise SystemExit(f"a snapshot had {found} clients, and {connected:,.0f} of {clients:,} are connected")
    after = node.stats().histograms[_METRIC].counts
    yield "hold/snapshot_ms", bucket_quantile(before, after, bounds, 1.0) * 1e3
    yield "hold/median_ms", bucket_quantile(before, after, bounds, 0.5) * 1e3
    yield "hold/run_ms", bucket_quantile([0] * len(after), after, bounds, 1.0) * 1e3


def own_memory_mb(node: Node) -> float:
    """What the broker's process has for itself, shared libraries left out."""
    return float(node.broker().memory_full_info().uss) / 1e6
