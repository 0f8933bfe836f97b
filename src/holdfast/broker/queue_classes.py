"""Which client has its queue where: by the classes of the settings, the first that matches."""

from fnmatch import fnmatchcase
from typing import Final

from holdfast.broker.policy import LOG, Policy
from holdfast.durable.queue_store import QueueLimits


class QueueClasses:
    """Asked when a session begins, and for the limits of one that is resumed."""

    def __init__(self, policy: Policy) -> None:
        self._policy: Final = policy

    def of(self, session_id: str) -> tuple[str, QueueLimits]:
        """The home of a client's queue, empty for the log, and what the queue may hold."""
        sessions = self._policy.sessions
        client_id = session_id.rpartition("\0")[2]  # without the mount point
        home = sessions.queue
        most, most_bytes = sessions.max_queued_messages, sessions.max_queued_bytes
        ttl_s, on_full = sessions.queue_ttl_s, sessions.on_full
        for rule in self._policy.classes.values():
            if fnmatchcase(client_id, rule.clients):
                home = rule.queue
                most = most if rule.max_queued_messages is None else rule.max_queued_messages
                most_bytes = most_bytes if rule.max_queued_bytes is None else rule.max_queued_bytes
                ttl_s = ttl_s if rule.queue_ttl_s is None else rule.queue_ttl_s
                on_full = rule.on_full or on_full
                break
        return "" if home == LOG else home, QueueLimits(most, most_bytes, ttl_s, on_full=on_full)
