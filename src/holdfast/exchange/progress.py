"""How far a session has come, as it is stored: read off its window and its queue when it is needed."""

from holdfast.durable.log_queue import LogQueue
from holdfast.exchange.client import Client
from holdfast.records.sessions import Progress, ProgressEntry


def progress_of(client: Client) -> Progress | None:
    """The progress of a session that follows the log; None for one that has a queue of its own."""
    queue = client.queue
    if not isinstance(queue, LogQueue):
        return None
    window = client.session.window
    entries: list[ProgressEntry] = []
    for packet_id in window.packet_ids():
        owed = window.owed(packet_id)
        if owed is not None and (owed.message.position_us or owed.qos == 2):
            entries.append(ProgressEntry(packet_id, owed.qos, owed.message.shard, owed.message.position_us))
    return Progress(queue.sent(), entries, window.reservation())
