"""Clients as the control socket shows them: a row of the list, and one session in full."""

from itertools import islice
from typing import Final

from holdfast.broker.broker import Broker
from holdfast.broker.connections.connection import ClientConnection
from holdfast.control.words import EARLIEST_US, LISTED, ClientDetail, ClientRow, InflightInfo, SubscriptionInfo
from holdfast.durable.queues.log_queue import LogQueue
from holdfast.exchange.client import BrokerClient
from holdfast.model.time import SECOND_US
from holdfast.node.control.stored_log import StoredLog
from holdfast.session.state import SessionState
from holdfast.topics.subscription import SubscriptionRecord

#: Characters of names in one frame: with four bytes each they still fit into it.
MAX_NAMES: Final = 150_000


class ClientRowBuilder:
    """Makes rows of connections. Requires: the broker's event loop."""

    def __init__(self, broker: Broker, log: StoredLog | None) -> None:
        """`log` says at most how many messages lie behind positions of the log; None for a broker without one."""
        self._broker: Final = broker
        self._log: Final = log

    def refresh(self) -> None:
        """Look where the log ends now: bounds of what is owed are as of then."""
        if self._log is not None:
            self._log.refresh()

    def row(self, connection: ClientConnection) -> ClientRow | None:
        """The row of a connection; None if it has no session, or has ended."""
        channel = connection.channel
        client = channel.client
        if client is None or channel.closed:
            return None
        clock = self._broker.clock
        session = client.session
        origin = connection.origin
        return ClientRow(
            session_id=connection.session_id,
            client_id=connection.client_id,
            user=connection.user or "",
            address=origin.address,
            port=origin.port,
            listener=origin.listener,
            transport=origin.transport,
            version=channel.version,
            since_us=clock.wall_us() - (clock.monotonic_us() - connection.opened_us),
            keep_alive_s=connection.keep_alive_us * 2 // 3 // SECOND_US,
            expiry_s=session.expiry_s,
            subscriptions=len(session.subscriptions),
            inflight=len(session.window),
            behind=client.behind,
            owed=self.owed(client) if client.behind else 0,
        )

    def owed(self, client: BrokerClient) -> int:
        """At most how many messages wait in its queue. Of an external queue, as far as this broker knows it."""
        queue = client.queue
        if not isinstance(queue, LogQueue) or self._log is None:
            return queue.count()
        return self._log.owed_at_most(queue.sent()) if queue.count() else 0

    def detail(self, session_id: str) -> ClientDetail | None:
        """A session in memory, in full; None if there is none."""
        client = self._broker.sessions.clients.get(session_id)
        if client is None:
            return None
        session = client.session
        connection = self._broker.connection_of(session_id)
        will = self._broker.sessions.wills.waiting(session_id) if connection is None else connection.will
        return ClientDetail(
            session_id=session_id,
            connection=None if connection is None else self.row(connection),
            user=session.user or "",
            expiry_s=session.expiry_s,
            disconnected_us=session.disconnected_us,
            subscriptions=_subscriptions(client),
            subscription_count=len(session.subscriptions),
            inflight=_inflight(session),
            inflight_count=len(session.window),
            owed=self.owed(client),
            has_will=will is not None,
        )


def subscription_info(client: BrokerClient, record: SubscriptionRecord) -> SubscriptionInfo:
    """A subscription of a client; of one in a group, with the number of its members."""
    subscribed = client.subscribed(record.filter.raw)
    group = None if subscribed is None else subscribed.group
    replay = client.replay_of(record.filter.raw)
    return SubscriptionInfo(
        filter=show(record.filter.raw),
        qos=record.qos,
        session_id=client.session.client_id,
        group=record.filter.group,
        members=0 if group is None else len(group.members),
        no_local=record.no_local,
        retain_as_published=record.retain_as_published,
        retain_handling=record.retain_handling,
        identifier=record.identifier,
        since_us=record.began_us(),
        replayed_us=0 if replay is None else max(EARLIEST_US, min(replay.queue.sent().values(), default=0)),
    )


def show(name: bytes) -> str:
    """A topic or a filter as text."""
    return name.decode(errors="replace")


def _subscriptions(client: BrokerClient) -> tuple[SubscriptionInfo, ...]:
    """The first of them, as many as fit into an answer."""
    found: list[SubscriptionInfo] = []
    names = 0
    for record in islice(client.session.subscriptions.values(), LISTED):
        names += len(record.filter.raw)
        if names > MAX_NAMES:
            break
        found.append(subscription_info(client, record))
    return tuple(found)


def _inflight(session: SessionState) -> tuple[InflightInfo, ...]:
    """The oldest of them, as many as fit into an answer."""
    window = session.window
    found: list[InflightInfo] = []
    names = 0
    for packet_id in islice(window.packet_ids(), LISTED):
        owed = window.owed(packet_id)
        if owed is None:
            continue
        names += len(owed.message.topic)
        if names > MAX_NAMES:
            break
        waits_for = "puback"
        if owed.qos == 2:
            waits_for = "pubcomp" if window.is_released(packet_id) else "pubrec"
        found.append(InflightInfo(packet_id, owed.qos, waits_for, show(owed.message.topic)))
    return tuple(found)
