"""What a broker keeps its state in. Who assembles a node picks the implementations; the broker knows none of them."""

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.durable.commit import CommitLog
from holdfast.durable.queue import ClientQueue
from holdfast.durable.registry import Registry
from holdfast.durable.retained import RetainedStore
from holdfast.durable.sessions import SessionStore


@dataclass(frozen=True)
class Stores:
    """One implementation of each contract."""

    log: CommitLog
    retained: RetainedStore
    sessions: SessionStore
    registry: Registry
    #: A new queue, for a client or for a group.
    new_queue: Callable[[], ClientQueue]
