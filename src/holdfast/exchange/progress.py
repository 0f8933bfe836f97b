"""How far a session has come, as it is stored: read off its window and its queue when it is needed."""

from holdfast.durable.log_queue import LogQueue
from holdfast.durable.outside_queue import OutsideQueue
from holdfast.durable.sessions import DropWalk, KeepWalk, Step
from holdfast.exchange.client import Client
from holdfast.model.owed import QUEUE_SHARD, OwedQueued, OwedRetained, place_of
from holdfast.records.sessions import Progress, ProgressEntry
from holdfast.records.walks import RetainedPlace


def progress_of(client: Client) -> Progress | None:
    """How far a session is, in the log or in its queue outside; None for one with a queue in memory."""
    queue = client.queue
    if isinstance(queue, LogQueue):
        sent = queue.sent()
    elif isinstance(queue, OutsideQueue):
        sent = {QUEUE_SHARD: queue.settled()}
    else:
        return None
    window = client.session.window
    entries: list[ProgressEntry] = []
    for packet_id in window.packet_ids():
        owed = window.owed(packet_id)
        if window.is_stolen(packet_id):
            continue
        if owed is not None and (owed.message.position_us or owed.qos == 2 or isinstance(owed, OwedQueued)):
            shard, position = place_of(owed)
            entries.append(ProgressEntry(packet_id, owed.qos, shard, position))
        elif isinstance(owed, OwedRetained):
            place = RetainedPlace(owed.message.topic, owed.newest, owed.identifiers)
            entries.append(ProgressEntry(packet_id, owed.qos, 0, 0, place))
    if isinstance(queue, OutsideQueue):
        # It keeps its packet id over another restart [MQTT-4.4.0-1].
        entries += [
            ProgressEntry(packet_id, 1, QUEUE_SHARD, serial) for serial, packet_id in queue.sent_before().items()
        ]
    return Progress(sent, entries, window.reservation())


def walk_steps(client: Client) -> list[Step]:
    """What to store of its walks together with its progress."""
    client_id = client.session.client_id
    steps: list[Step] = []
    # One at a time moves. One that had to wait in between has its place stored already, or is the first.
    walk = client.next_walk()
    if walk is not None and walk.stored and walk.moved():
        steps.append(KeepWalk(client_id, walk.subscribed.record.filter.raw, walk.whole_record()))
    if client.ended_walks is not None:
        steps.extend([DropWalk(client_id, raw) for raw in client.ended_walks])
        client.ended_walks = None
    return steps
