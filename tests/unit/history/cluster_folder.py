"""The folder of a node in a cluster as readers beside it see it: logs, a node that applies them, what it published."""

from holdfast.records.cluster.items import Border, DropGeneration
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.layouts.paged import SegmentSize
from holdfast.storage.rocks.vnodes.vnode_heads import VnodeHeads
from tests.unit.durable.state_machine.vnode import message
from tests.unit.storage.rocks.vnodes.vnode_world import VNODES, Logs, Node

#: Shard, position, serial, topic, payload.
Row = tuple[int, int, int, str, bytes]


class NodeFolder:
    """`rows` are the messages that were applied, in the order of each shard."""

    def __init__(self, engine: Engine, layout: str = "paged", logs: Logs | None = None) -> None:
        """Without logs of its own it applies none yet."""
        self.engine = engine
        self.layout = layout
        self.logs = Logs(layout=layout) if logs is None else logs
        self.node = Node(engine)
        self.heads = VnodeHeads(engine.folder, self.node.stores.log)
        self.rows: list[Row] = []

    def fill(self, records: int = 6, vnodes: tuple[int, ...] = tuple(range(VNODES))) -> None:
        for number in range(records):
            for vnode in vnodes:
                topics = [b"%c/%d" % (b"ab"[one % 2], one) for one in range(4)]
                if number % 3 == 2:
                    topics.append(b"audit/%d" % number)
                self.logs.write(vnode, *[message(topic, b"%d" % number) for topic in topics])
        self.apply()

    def rotate(self, vnode: int, number: int, zone: str = "default") -> None:
        self.logs.write(vnode, Border(zone, number, self.layout, {}))
        self.apply()

    def drop(self, vnode: int, number: int, zone: str = "default") -> None:
        self.logs.write(vnode, DropGeneration(zone, number))
        self.apply()

    def apply(self) -> None:
        for outcome in self.node.catch_up(self.logs):
            for one in outcome.published:
                found = one.message
                place = (found.shard, found.position_us, one.serial)
                self.rows.append((*place, found.topic.decode(), bytes(found.payload)))

    def publish(self) -> None:
        publish = self.heads.note()
        self.engine.sync_now()
        publish()

    def of(self, shard: int) -> list[Row]:
        return [row for row in self.rows if row[0] == shard]

    def close(self) -> None:
        self.heads.close()


def fill(world: NodeFolder) -> None:
    """Generations that begin and end in each shard at another time, one of them in segments, one of them gone."""
    world.fill()
    world.rotate(0, 2)
    world.fill()
    world.node.stores.segments.writer(SegmentSize(messages=20, commits=10)).write_all()
    world.rotate(1, 2)
    world.rotate(1, 3)
    world.fill()
    world.rotate(0, 3)
    world.fill(2)
    world.publish()
