"""QoS 0 between nodes on real NATS servers: to nodes that want it, and to all after a connection was lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack

import pytest

from holdfast.cluster.filter_exchange import FilterExchange
from holdfast.cluster.nats.connection import NatsConnection
from holdfast.cluster.qos0_relay import Qos0Relay, connect_relay
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.topics.filters import parse_filter
from tests.cluster.nats_world import NatsWorld

pytestmark = pytest.mark.slow

NODES = (1, 2, 3)


class Node:
    """A relay over a connection of its own, and what it was sent."""

    def __init__(self, relay: Qos0Relay, filters: FilterExchange, delivered: list[Message]) -> None:
        self.work: list[asyncio.Task[None]] = []
        self.relay = relay
        self.filters = filters
        self.delivered = delivered

    @classmethod
    async def open(cls, connection: NatsConnection, number: int, tasks: asyncio.TaskGroup) -> Node:
        delivered: list[Message] = []
        relay, filters = await connect_relay(
            connection, "qos0-test", number, lambda: NODES, delivered.extend, lambda *_dropped: None
        )
        node = cls(relay, filters, delivered)
        node.work = [tasks.create_task(relay.run()), tasks.create_task(filters.run())]
        return node

    def publish(self, topic: bytes) -> None:
        self.relay.add(Message(topic, b"x", 0, ClientId("c"), 1))

    def topics(self) -> list[bytes]:
        return [message.topic for message in self.delivered]


async def until(nodes: list[Node], true: Callable[[], bool]) -> None:
    """Let seconds pass for the nodes, as fast as the servers are, until something holds."""
    async with asyncio.timeout(60):
        while not true():
            for node in nodes:
                node.filters.tick()
            await asyncio.sleep(0.02)


def test_qos0_goes_to_the_nodes_that_want_it_and_to_all_behind_a_lost_connection(nats_servers: NatsWorld) -> None:
    async def story() -> None:
        async with AsyncExitStack() as stack:
            connections = [await stack.enter_async_context(nats_servers.connected(first)) for first in range(3)]
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            nodes = [await Node.open(each, number, tasks) for each, number in zip(connections, NODES, strict=True)]
            one, two, three = nodes
            await until(nodes, lambda: one.filters.nodes_for(b"a/1") == ())
            two.filters.subscribed(parse_filter(b"a/#"))
            await until(nodes, lambda: one.filters.nodes_for(b"a/1") == (2,))
            one.publish(b"b")
            one.publish(b"a/1")
            await until(nodes, lambda: two.topics() == [b"a/1"])
            assert (one.delivered, three.delivered) == ([], [])

            at_connection: list[tuple[int, ...]] = []
            connections[0].on_connected(lambda: at_connection.append(one.filters.nodes_for(b"b")))
            nats_servers.processes[0].kill()
            await until([two, three], lambda: bool(at_connection))
            assert at_connection == [(2, 3)], "what others told meanwhile was not heard"
            two.filters.subscribed(parse_filter(b"c"))
            await until(nodes, lambda: one.filters.nodes_for(b"c") == (2,))
            one.publish(b"c")
            await until(nodes, lambda: two.topics() == [b"a/1", b"c"])
            for node in nodes:
                for task in node.work:
                    task.cancel()

    try:
        asyncio.run(story())
    finally:
        nats_servers.start()
