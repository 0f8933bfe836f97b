"""The contract of shared subscriptions: `ShareGroups` has the groups of one node, a cluster has its own."""

from collections.abc import Callable
from typing import Protocol

from holdfast.broker.subscriptions.share_request import ShareRequest
from holdfast.exchange.client import BrokerClient, Group, Subscribed
from holdfast.topics.subscription import SubscriptionRecord


class SharedSubscriptions(Protocol):
    """Members of groups at this node."""

    def count(self) -> int:
        """How many groups have members here."""

    def group_for(self, client: BrokerClient, record: SubscriptionRecord, share: ShareRequest | None) -> Group:
        """The group of a subscription, which begins with it if there is none; without a request it was stored."""

    def join(self, group: Group, subscribed: Subscribed) -> None:
        """A client is a member, or replaces its subscription."""

    def leave(self, client: BrokerClient, group: Group) -> None:
        """A client is no member any more, or is forgotten here. What it has in flight it keeps."""

    def take_from_absent(self, client: BrokerClient) -> None:
        """A member is online: it may get what waits for its groups."""

    def share_out(self, client: BrokerClient) -> None:
        """The connection of a member is gone: others get what it did not acknowledge."""

    def leave_all(self, client: BrokerClient) -> None:
        """The session of a member ends."""

    def await_standing(
        self, client: BrokerClient, records: list[SubscriptionRecord], decided: Callable[[set[bytes]], None]
    ) -> None:
        """Call back when the groups of new subscriptions stand with this member, with the filters whose groups do not.

        Until then a SUBACK would promise what the death of a node could break.
        """

    def describe(self, client: BrokerClient, raw: bytes, now_us: int, *, replay: bool) -> list[tuple[str, str]]:
        """User properties for SUBACK: what holds for the group, whatever this member asked for."""
