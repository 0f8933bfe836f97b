"""A stored subscription hides `$`-topics behind its mount point."""

import pytest

from holdfast.topics.filters import parse_filter
from holdfast.topics.subscription import SubscriptionRecord

pytestmark = pytest.mark.compiled


def record(mount_bytes: int) -> SubscriptionRecord:
    return SubscriptionRecord(
        filter=parse_filter(b"tenant/#"),
        qos=1,
        no_local=False,
        retain_as_published=False,
        retain_handling=0,
        identifier=0,
        since_us=0,
        mount_bytes=mount_bytes,
    )


@pytest.mark.parametrize(
    ("mount_bytes", "topic", "hidden"),
    [(7, b"tenant/$SYS/x", True), (7, b"tenant/a", False), (0, b"tenant/$SYS/x", False), (0, b"$SYS/x", False)],
)
def test_a_wildcard_behind_a_mount_point_does_not_reach_dollar_topics(
    mount_bytes: int, topic: bytes, hidden: bool
) -> None:
    """[MQTT-4.7.2-1], for the topic as the client sees it."""
    assert record(mount_bytes).hides(topic) is hidden
