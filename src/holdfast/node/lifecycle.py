"""A node as a process: listen, serve until a signal, stop. SIGHUP reloads what can be reloaded."""

import asyncio
import ctypes
import gc
import signal
from collections.abc import Callable
from typing import Final

import structlog

from holdfast.model.errors import SettingsError
from holdfast.node.build_info import describe
from holdfast.node.embedding import InstallationNeededError, Node, running
from holdfast.node.logs import configure_logs
from holdfast.node.reload import ReloadOutcome
from holdfast.node.settings.tree import Settings
from holdfast.node.settings.values import format_toml
from holdfast.node.shutdown import StopDeadline, StopRequest, stop_on_signals

_log = structlog.get_logger()

OPEN_TO_ALL: Final = "ANYONE WHO REACHES THIS LISTENER MAY CONNECT WITHOUT CREDENTIALS"

#: The parameter's number in glibc's malloc.h.
_M_MMAP_THRESHOLD: Final = -3

#: Reads the settings again; SettingsError if they are wrong now.
ReadSettings = Callable[[], Settings]


def run(settings: Settings, read_again: ReadSettings) -> None:
    """Serve until a signal, on uvloop if it is installed."""
    _configure_memory()
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        runner.run(serve(settings, read_again))


def _configure_memory() -> None:
    """Set up the garbage collector and the allocator for a process that runs for months."""
    # Messages come and go by the thousand and hold no cycles; looking for cycles among them at the default pace
    # costs a tenth of the time, and among a million young objects half a second at once: hence 20,000, and ten times as
    # many. What lives from the start on is not looked at again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 100)
    # glibc raises its threshold for mmap when such a block is freed, and puts the next memtables into the heap, between
    # payloads: 48 MB of holes after ten minutes of load, 7 MB with a fixed threshold (ADR 0027).
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 1 << 20)


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


async def serve(settings: Settings, read_again: ReadSettings) -> None:
    """Serve until SIGINT or SIGTERM; SIGHUP reads settings, passwords, access rules, blocks and certificates again.

    `shutdown` says how it ends. A node that has to be installed from another one is closed and opened again for that.
    """
    while True:
        try:
            await _serve(settings, read_again)
        except InstallationNeededError as error:
            _log.info("node is opened again to be installed", why=str(error))
        else:
            return
        try:
            settings = read_again()
        except SettingsError as error:
            _log.error("not reloaded, the old one stays", what="settings", why=str(error))


async def _serve(settings: Settings, read_again: ReadSettings) -> None:
    deadline = StopDeadline()
    stop = StopRequest(lambda: deadline.begin(settings.limits.stop_timeout_s, _nothing_to_sync))
    loop = asyncio.get_running_loop()
    stop_on_signals(loop, stop.make)
    # Settings are being read and files opened: there is nothing to reload yet, and the default action ends the process.
    loop.add_signal_handler(signal.SIGHUP, _ignore)
    failure: Exception | None = None
    try:
        async with running(settings, own_process=True) as node:
            stop.opened()
            await _serve_node(node, settings, read_again, stop.made, deadline)
        failure = node.failure
    except asyncio.CancelledError:
        if not stop.ended_opening():
            raise
    deadline.met()
    _log.info("stopped")
    # Whoever stops a node that has to be installed does not want it to be opened again.
    if failure is not None and not (stop.made.is_set() and isinstance(failure, InstallationNeededError)):
        raise failure


async def _serve_node(
    node: Node, settings: Settings, read_again: ReadSettings, stop: asyncio.Event, deadline: StopDeadline
) -> None:
    """Returns when the node is to be closed, with the time limit of the stop running."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, lambda: reload(node, read_again))
    if node.control is not None:
        node.control.words.reload_all = lambda: reload(node, read_again)
        node.control.words.set_log_level = lambda level: configure_logs(level, node.settings.log.format)
    _log.info(describe(), durability=settings.storage.durability)
    for name, (host, port) in node.listeners.addresses().items():
        _log.info("listening", listener=name, host=host, port=port)
    for line in open_listeners(settings):
        _log.warning(OPEN_TO_ALL, **line)
    await _either(stop, node.failed)
    timeout_s = node.settings.limits.stop_timeout_s
    _log.info("stopping", within_s=timeout_s)
    deadline.begin(timeout_s, node.sync_within)


def _ignore() -> None:
    pass


def _nothing_to_sync(_timeout_s: float) -> None:
    """What was written before a node is open was synced by what wrote it."""


def open_listeners(settings: Settings) -> list[dict[str, str]]:
    """One entry for each listener that other machines can reach and that asks for no credentials."""
    rights = "publish and read everything" if settings.security.acl_file is None else "what acl_file grants"
    return [
        {
            "listener": name,
            "host": listener.host,
            "rights": rights,
            "advice": "set security.password_file, and take allow_anonymous = true away",
        }
        for name, listener in settings.listeners.items()
        if settings.anonymous_allowed(listener) and not listener.is_loopback
    ]


async def _either(one: asyncio.Event, other: asyncio.Event) -> None:
    waits = [asyncio.create_task(event.wait()) for event in (one, other)]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


def reload(node: Node, read_again: ReadSettings) -> ReloadOutcome:
    """Apply what can be applied now. A part that is wrong stays as it was and does not hold up the others."""
    outcome = ReloadOutcome()
    steps: dict[str, Callable[[], None]] = {
        "settings": lambda: _reload_settings(node, read_again(), outcome),
        "access": node.broker.reload_access,
        "blocks": node.broker.block_administration.reload,
        "certificates": node.listeners.reload_certificates,
    }
    for what, step in steps.items():
        try:
            step()
        except SettingsError as error:
            _log.error("not reloaded, the old one stays", what=what, why=str(error))
            outcome.errors[what] = str(error)
        else:
            _log.info("reloaded", what=what)
    if node.control is not None:
        node.control.state.reloads.note(outcome, node.broker.clock.wall_us())
    return outcome


def _reload_settings(node: Node, settings: Settings, outcome: ReloadOutcome) -> None:
    log = node.settings.log
    reloaded = node.change(settings)
    outcome.changed, outcome.waiting = reloaded.live(), reloaded.waiting()
    if node.settings.log != log:
        configure_logs(node.settings.log.level, node.settings.log.format)
    for change in outcome.changed:
        _log.info("a setting changed", key=change.key, before=format_toml(change.before), now=format_toml(change.after))
    for change in outcome.waiting:
        _log.warning(
            "a setting needs a restart", key=change.key, now=format_toml(change.before), then=format_toml(change.after)
        )
