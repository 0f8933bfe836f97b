"""Walks: retained messages that a SUBACK promises, sent as the client takes them, also over the end of the broker.

    SUBSCRIBE    begin      with the subscription, in one batch, if there is anything to be owed
    SUBACK       start      from then on the client is sent what is retained
    CONNECT      restore    where the last connection, or the last run of the broker, stopped

QoS 0 is for who is there: what an earlier connection did not get of it is not sent later.
"""

from typing import Final

from holdfast.durable.log_queue import LogQueue
from holdfast.durable.retained import RetainedStore
from holdfast.durable.sessions import DropWalk, KeepWalk
from holdfast.exchange.channel import Channel
from holdfast.exchange.client import Client, Subscribed, Walk
from holdfast.exchange.exchange import Exchange
from holdfast.model.clock import Clock
from holdfast.records.walks import WalkProgress


class Walks:
    """Begins walks, and takes them up again."""

    def __init__(self, exchange: Exchange, retained: RetainedStore, clock: Clock) -> None:
        self._exchange: Final = exchange
        self._retained: Final = retained
        self._clock: Final = clock

    def begin(self, subscribed: Subscribed) -> Walk:
        """A walk for a subscription that is being made, in the place of an earlier one. It waits for the SUBACK."""
        client = subscribed.client
        raw = subscribed.record.filter.raw
        stored_before = client.forget_walk(raw)
        # What is written and not committed yet is older than the subscription: from the log it would not come.
        begun = WalkProgress(self._retained.written(), b"", b"")
        walk = Walk(subscribed, begun, stored=self._owes(subscribed, begun.newest))
        if walk.stored:
            self._exchange.under_way.step(KeepWalk(client.session.client_id, raw, begun))
        elif stored_before and client.stored():
            self._exchange.under_way.step(DropWalk(client.session.client_id, raw))
        return walk

    def _owes(self, subscribed: Subscribed, newest: int) -> bool:
        """Whether there is anything that the session has to get, whatever happens to its connection.

        It is stored to be so if that cannot be told from a few keys.
        """
        client = subscribed.client
        record = subscribed.record
        if record.qos == 0 or not client.stored() or not isinstance(client.queue, LogQueue):
            return False
        if client.subscribed.get(record.filter.raw) is not subscribed:  # its history is under way instead
            return False
        scan = self._retained.rest(record.filter, self._clock.wall_us(), b"", newest)
        return self._exchange.delivery.walking.finds_any(scan)

    def start(self, walk: Walk, channel: Channel) -> None:
        """The SUBACK is on its way: send what is retained as of now. What comes later does so by itself."""
        subscribed = walk.subscribed
        client = subscribed.client
        record = subscribed.record
        if client.subscribed.get(record.filter.raw) is subscribed:
            walk.newest = self._retained.newest()
            walk.scan = self._retained.match(record.filter, self._clock.wall_us())
            walk.resumed = client.channel is not channel
            client.drop_walks(record.filter.raw)
            client.add_walk(walk)
            self._exchange.pump_soon(client)

    def restore(self, client: Client, raw: bytes, progress: WalkProgress, *, repeated: bool) -> None:
        """Go on with a walk that is stored, when its client has a connection; `repeated` if it may have got more."""
        subscribed = client.subscribed.get(raw)
        if subscribed is None:
            return
        walk = Walk(subscribed, progress, stored=True)
        walk.resumed = True
        walk.repeated = repeated
        walk.scan = self._retained.rest(subscribed.record.filter, self._clock.wall_us(), progress.sent, progress.newest)
        client.add_walk(walk)
