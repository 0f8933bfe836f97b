"""Retained messages on their way to a new subscription: how far it is, as it is stored and as it is sent.

A delivery that a SUBACK promised to a session that is kept is stored, and continues after a crash
(`records/session/retained_progress.py`).
"""

from typing import Final

from holdfast.durable.retained.retained_store import RetainedScan
from holdfast.records.session.retained_progress import RetainedProgress
from holdfast.topics.names import in_level_order
from holdfast.topics.subscription import SubscriptionRecord


class RetainedDelivery:
    """The retained messages of one subscription, fetched as the client takes them.

    1. A delivery that is stored was so before its SUBACK, and is until nothing of it is owed.
    2. Its messages come in the order of their levels, so a topic says how far it is.
    """

    def __init__(self, record: SubscriptionRecord, begun: RetainedProgress, *, stored: bool) -> None:
        self.record: Final = record
        self.stored: Final = stored
        #: What finds its messages; None until the SUBACK is on its way.
        self.scan: RetainedScan | None = None
        #: The last change of retained messages that concerns it.
        self.newest = begun.newest
        #: That of each vnode; empty on one node.
        self.versions: Final = begun.versions
        #: The topic that it came to last, and what the stored record says.
        self.at = begun.sent
        self._sent = begun.sent
        self._sent_qos2 = begun.sent_qos2
        #: Whether QoS 2 messages are in flight that the stored record does not know of.
        self.ahead = False
        #: Whether it began on an earlier connection; and whether that may have got more than the record says.
        self.resumed = False
        self.repeated = False

    def skips(self, topic: bytes, qos: int) -> bool:
        """Whether a message was sent before, or was QoS 0 for an earlier connection."""
        if not self.resumed:
            return False
        return qos == 0 or (qos == 2 and in_level_order(topic) <= in_level_order(self._sent_qos2))

    def moved(self) -> bool:
        """Whether it has come further than the stored record says."""
        return self._sent != self.at

    def progress(self) -> RetainedProgress:
        """What to store with the QoS 2 entries of what it came to."""
        if in_level_order(self.at) > in_level_order(self._sent_qos2):
            self._sent_qos2 = self.at
        self.ahead = False
        return RetainedProgress(self.newest, self._sent, self._sent_qos2, self.versions)

    def whole_progress(self) -> RetainedProgress:
        """What to store with the session's progress, which has what is unacknowledged."""
        self._sent = self.at
        return self.progress()
