"""Settings that the path of messages keeps."""

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.model.protocol import QOS_2


@dataclass
class ExchangeSettings:
    """What is chosen when the broker is assembled. The last two may change while the broker runs."""

    max_qos: int = QOS_2
    retain_available: bool = True
    max_topic_levels: int = 200
    #: Deliver with the QoS of the subscription, also above the message's own.
    upgrade_outgoing_qos: bool = False
    #: Whether the log decides (`CommitLog`): a receipt acknowledges, and what the log hands out is delivered.
    log_decides: bool = False
    #: How many vnodes its receipts tell apart, if the log decides.
    vnodes: int = 1
    #: Refuse a payload that claims to be UTF-8 and is not.
    check_payload_format: bool = False
    #: Whether QoS 0 messages are stored, too; no acknowledgement waits for that.
    keeps_qos0: bool = False
    #: Whether QoS 1 messages of a topic are delivered before their commit; None if none are.
    goes_early: Callable[[bytes], bool] | None = None
    #: Whether messages are refused while the backend of one of their external queues is away; else they wait.
    refuses_when_away: bool = False
    #: The backends of external queues, by name, and the first outbox number of this run.
    backends: tuple[str, ...] = ()
    first_outbox_number: int = 1
    #: Topics that may have a retained message; 0 for no bound.
    max_retained: int = 0
    #: Messages a second out of the backlog of a client that is back; 0 for as fast as it takes them.
    backlog_rate: int = 0
