"""A subscription as a session keeps it: the filter, its options, and since when it holds."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.topics.filters import TopicFilter
from holdfast.topics.names import is_dollar


@dataclass(frozen=True)
class SubscriptionRecord:
    """One subscription of a session."""

    filter: TopicFilter
    qos: int
    no_local: bool
    retain_as_published: bool
    retain_handling: int
    #: 0 for none.
    identifier: int
    #: Wall time; kept when the subscription is replaced, so that nothing owed is forgotten.
    since_us: int
    #: Length of the mount point, if the client's own filter begins with a wildcard; else 0.
    mount_bytes: int = 0
    #: Of a member of a group: how many messages of the group it takes at once; 0 for as many as its connection does.
    share_window: int = 0
    #: In a cluster: the last position of each shard when the subscription was made, and `since_us` is 0. A time would
    #: not do: shards have their own, and one that is behind would get positions below it. None without a cluster.
    since_heads: Mapping[int, int] | None = field(default=None, hash=False)

    def begins_before(self, shard: int, position_us: int) -> bool:
        """Whether a message at this place came after the subscription. A shard that it does not know began later."""
        if self.since_heads is None:
            return self.since_us <= position_us
        return self.since_heads.get(shard, 0) < position_us

    def began_us(self) -> int:
        """When the subscription began, about: in a cluster it did at a position of each shard."""
        return self.since_us or max([0, *(self.since_heads or {}).values()])

    def hides(self, topic: bytes) -> bool:
        """Whether `topic` is a `$`-topic to this client, whose wildcards leave those out [MQTT-4.7.2-1].

        Without a mount point the matcher sees to it.
        """
        return self.mount_bytes > 0 and is_dollar(topic[self.mount_bytes :])
