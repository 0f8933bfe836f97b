"""Assembly: from settings to a broker with its listeners. The only place that picks implementations."""

from typing import TYPE_CHECKING

from holdfast.broker.access.authenticator import Authenticator
from holdfast.broker.access.blocks import Blocks
from holdfast.broker.broker import Broker
from holdfast.broker.policy import Policy
from holdfast.broker.stores import Stores
from holdfast.durable.commit import MemoryLog
from holdfast.durable.lake_log import LakeSource
from holdfast.durable.queues.memory_queue import MemoryQueue
from holdfast.durable.queues.queue_store import QueueStore
from holdfast.durable.retained.memory_retained import MemoryRetained
from holdfast.durable.sessions.session_store import MemorySessions
from holdfast.durable.takeover.registry import MemoryRegistry
from holdfast.files.block_file import FILE_NAME as BLOCKS_NAME
from holdfast.model.clock import Clock
from holdfast.node.queue_stores import open_queue_stores, used_backends
from holdfast.node.settings.tree import Settings
from holdfast.node.system_clock import SystemClock
from holdfast.server.listener_spec import MESSAGE_LIMIT_BYTES, ListenerSpec

if TYPE_CHECKING:
    from holdfast.node.storage import DiskStorage


async def assemble(
    settings: Settings, lake: LakeSource | None = None
) -> tuple[Broker, "DiskStorage | None", dict[str, QueueStore]]:
    """A broker, its storage on disk if it has one, and its queue backends outside the log; replays read the lake.

    SettingsError if a file is wrong or the data folder is in use.
    """
    policy = policy_of(settings)
    clock = SystemClock()
    authenticator = authenticator_of(settings, policy, clock)
    blocks = blocks_of(settings, clock)
    if not settings.on_disk():
        return Broker(policy, clock, authenticator, memory_stores(policy), blocks), None, {}
    # Imported here: a node that keeps everything in memory does not need RocksDB.
    from holdfast.node.storage import DiskStorage

    disk = DiskStorage(settings, policy, clock)
    try:
        backends = await open_queue_stores(settings, clock, used_backends(settings, disk.sessions))
    except BaseException:
        disk.close()
        raise
    return Broker(policy, clock, authenticator, disk.stores(backends, lake), blocks), disk, backends


def policy_of(settings: Settings) -> Policy:
    return Policy(
        mqtt=settings.mqtt,
        limits=settings.limits,
        sessions=settings.sessions,
        registry=settings.registry,
        classes=settings.classes,
    )


def authenticator_of(settings: Settings, policy: Policy, clock: Clock) -> Authenticator:
    """SettingsError if a file is wrong."""
    files = settings.security
    return Authenticator(files.password_file, files.acl_file, policy=policy, clock=clock)


def blocks_of(settings: Settings, clock: Clock) -> Blocks:
    """SettingsError if the block file is wrong: without it, clients would come in that may not."""
    return Blocks(settings.storage.data / BLOCKS_NAME if settings.on_disk() else None, clock)


def memory_stores(policy: Policy) -> Stores:
    """Stores in memory: they survive a connection, not the broker."""
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
    """The listeners of the settings, as the server package takes them."""
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
