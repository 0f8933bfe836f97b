"""An explanation as plain data for JSON: `holdfast explain --json` and the console give the same."""

from holdfast.history.explanation import Explanation, MessageFate
from holdfast.history.tables.session_view import SessionView
from holdfast.records.events import Event, event_fields
from holdfast.topics.subscription import SubscriptionRecord


def no_session_fields(client: str, about: list[Event]) -> dict[str, object]:
    """Of a client that has no stored session."""
    return {"client": client, "session": None, "messages": [], "events": [event_fields(event) for event in about]}


def of_node(*, of_cluster: bool) -> dict[str, object]:
    """What is added in a cluster, where events are those of one node."""
    return {"events_of": "this node"} if of_cluster else {}


def explanation_fields(client: str, session: SessionView, answer: Explanation, about: list[Event]) -> dict[str, object]:
    record = session.record
    return {
        "client": client,
        "session": {
            "connected": record.disconnected_us == 0,
            "disconnected_us": record.disconnected_us or None,
            "expiry_s": record.expiry_s,
            "subscriptions": [_plain_subscription(one) for one in session.subscriptions.values()],
        },
        "found": answer.found,
        "lost_by_retention_at_most": answer.lost_at_most,
        "events_complete": answer.events_complete,
        "messages": [_plain_fate(fate) for fate in answer.fates],
        "events": [event_fields(event) for event in about],
    }


def _plain_subscription(record: SubscriptionRecord) -> dict[str, object]:
    return {"filter": record.filter.raw.decode(), "qos": record.qos, "since_us": record.began_us()}


def _plain_fate(fate: MessageFate) -> dict[str, object]:
    message = fate.message
    plain: dict[str, object] = {
        "topic": message.topic.decode(),
        "qos": message.qos,
        "publisher": message.publisher,
        "received_us": message.received_us,
        "shard": message.shard,
        "position_us": message.position_us,
        "state": fate.state,
        "why": fate.why,
        "matched": [_plain_subscription(record) for record in fate.matched],
    }
    if fate.packet_id:
        plain["packet_id"] = fate.packet_id
    if message.expires_us:
        plain["expires_us"] = message.expires_us
    if fate.event is not None:
        plain["event"] = event_fields(fate.event)
    return plain
