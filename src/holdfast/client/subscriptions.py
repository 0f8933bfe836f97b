"""Subscriptions of a client: asked for, granted, and asked for again of a broker that lost the session. Pure."""

from collections.abc import Callable, Sequence
from typing import Final

from holdfast.client.errors import ConnectionEnded, Event, RefusedError, describe_reason
from holdfast.model.reasons import UNSPECIFIED_ERROR
from holdfast.wire.packets import Suback, Subscribe, Subscription, Unsuback, Unsubscribe
from holdfast.wire.properties import Properties


class ClientSubscriptions:
    """What a client has asked for. Packets without an answer are sent again on the next connection."""

    def __init__(self) -> None:
        #: By packet id, in their order.
        self.unanswered: Final[dict[int, Subscribe | Unsubscribe]] = {}
        #: By filter.
        self._granted: Final[dict[bytes, tuple[Subscription, Properties]]] = {}
        #: Unanswered ones that no caller waits for.
        self._renewing: Final[set[int]] = set()

    def handle(self, answer: Suback | Unsuback) -> list[Event]:
        question = self.unanswered.pop(answer.packet_id, None)
        if isinstance(question, Subscribe) and isinstance(answer, Suback):
            for line, reason in zip(question.subscriptions, answer.reasons, strict=False):
                if reason < UNSPECIFIED_ERROR:
                    self._granted[line.filter.raw] = line, question.properties
            if answer.packet_id in self._renewing:
                self._renewing.discard(answer.packet_id)
                error = subscribe_refusal(question.subscriptions, answer)
                return [] if error is None else [ConnectionEnded(error)]
        elif isinstance(question, Unsubscribe):
            for topic_filter in question.filters:
                self._granted.pop(topic_filter.raw, None)
        return [answer]

    def renew(self, free_packet_id: Callable[[], int]) -> None:
        """The session is new: ask again for all that was granted."""
        for packet_id in self._renewing:
            del self.unanswered[packet_id]
        self._renewing.clear()
        for line, properties in self._granted.values():
            packet_id = free_packet_id()
            self.unanswered[packet_id] = Subscribe(packet_id, (line,), properties)
            self._renewing.add(packet_id)


def subscribe_refusal(subscriptions: Sequence[Subscription], suback: Suback) -> RefusedError | None:
    """The error that names every filter that was refused; None if all were granted."""
    refused = [
        f"{line.filter.raw.decode()}: {describe_reason(suback, reason)}"
        for line, reason in zip(subscriptions, suback.reasons, strict=False)
        if reason >= UNSPECIFIED_ERROR
    ]
    return RefusedError(f"the broker refused to subscribe to {'; '.join(refused)}") if refused else None
