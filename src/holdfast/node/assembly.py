"""Assembly: from settings to a broker with its listeners. The only place that picks implementations."""

from typing import TYPE_CHECKING, Final

from holdfast.broker.access.authenticator import Authenticator
from holdfast.broker.broker import Broker
from holdfast.broker.policy import Policy
from holdfast.broker.stores import Stores
from holdfast.durable.memory_log import MemoryLog
from holdfast.durable.memory_queue import MemoryQueue
from holdfast.durable.memory_registry import MemoryRegistry
from holdfast.durable.memory_retained import MemoryRetained
from holdfast.durable.memory_sessions import MemorySessions
from holdfast.durable.queue_store import QueueStore
from holdfast.node.queue_homes import homes_used, open_homes
from holdfast.node.settings import Settings
from holdfast.node.system_clock import SystemClock
from holdfast.server.listeners import ListenerSpec
from holdfast.server.websocket import MESSAGE_LIMIT_BYTES

if TYPE_CHECKING:
    from holdfast.node.storage import DiskStorage


class Assembled:
    """A broker, the disk under it, if it has one, and the homes of queues outside its log."""

    def __init__(self, broker: Broker, disk: "DiskStorage | None", homes: dict[str, QueueStore]) -> None:
        self.broker: Final = broker
        self.disk: Final = disk
        self.homes: Final = homes


async def assemble(settings: Settings) -> Assembled:
    """What the settings describe. SettingsError if a file of theirs is wrong, or the data folder is in use."""
    policy = Policy(mqtt=settings.mqtt, limits=settings.limits, sessions=settings.sessions, classes=settings.classes)
    clock = SystemClock()
    files = settings.security
    authenticator = Authenticator(files.password_file, files.acl_file, policy=policy, clock=clock)
    if not settings.on_disk():
        return Assembled(Broker(policy, clock, authenticator, memory_stores(policy)), None, {})
    # Not above: a node that keeps everything in memory does not need the library.
    from holdfast.node.storage import DiskStorage

    disk = DiskStorage(settings, policy, clock)
    try:
        homes = await open_homes(settings, clock, homes_used(settings, disk.sessions))
    except BaseException:
        disk.close()
        raise
    return Assembled(Broker(policy, clock, authenticator, disk.stores(homes)), disk, homes)


def memory_stores(policy: Policy) -> Stores:
    """State in memory: it survives a connection, not the broker."""
    limits = policy.sessions
    sessions = MemorySessions()
    return Stores(
        MemoryLog(sessions),
        MemoryRetained(),
        sessions,
        MemoryRegistry(),
        lambda _session, _subscriptions: MemoryQueue(limits.max_queued_messages, limits.max_queued_bytes),
    )


def listener_specs(settings: Settings) -> list[ListenerSpec]:
    """The listeners that the settings describe."""
    return [
        ListenerSpec(
            name=name,
            kind=listener.kind,
            host=listener.host,
            port=listener.port,
            mount_point=listener.mount_point,
            allow_anonymous=settings.anonymous_allowed(listener),
            proxy_protocol=listener.proxy_protocol,
            certificate=listener.certificate,
            key=listener.key,
            client_ca=listener.client_ca,
            require_client_certificate=listener.require_client_certificate,
            crl=listener.crl,
            path=listener.path,
            max_message_bytes=max(settings.mqtt.max_packet_size, MESSAGE_LIMIT_BYTES),
            allowed_origins=listener.origins_allowed(anonymous=settings.anonymous_allowed(listener)),
            max_connections=listener.max_connections or None,
            handshake_deadline_s=settings.limits.connect_timeout_s,
        )
        for name, listener in settings.listeners.items()
    ]
