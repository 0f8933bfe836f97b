"""A node's life: listen, serve until told to stop, say goodbye."""

import asyncio
import gc
import signal

import structlog

from holdfast.model.errors import SettingsError
from holdfast.node.build_info import describe
from holdfast.node.embedding import Node, running
from holdfast.node.settings import Settings

_log = structlog.get_logger()


def run(settings: Settings) -> None:
    """Serve until told to stop, on the fastest loop there is."""
    # Messages come and go by the thousand and hold no cycles; looking for cycles among them at the default pace
    # costs a tenth of the time. What lives from the start on is not looked at again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        runner.run(serve(settings))


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


async def serve(settings: Settings) -> None:
    """Serve until SIGINT or SIGTERM; SIGHUP reads passwords, access rules and certificates again."""
    async with running(settings) as node:
        # Before a word is said: who reads that we listen may send a signal at once.
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        loop.add_signal_handler(signal.SIGHUP, lambda: _reload(node))
        _log.info(describe(), durability=settings.storage.durability)
        for name, (host, port) in node.listeners.addresses().items():
            _log.info("listening", listener=name, host=host, port=port)
        await stop.wait()
        _log.info("stopping")
    _log.info("stopped")


def _reload(node: Node) -> None:
    for what, step in (
        ("access", node.broker.reload_access),
        ("certificates", node.listeners.reload_certificates),
    ):
        try:
            step()
        except SettingsError as error:
            _log.error("not reloaded, the old one stays", what=what, why=str(error))
        else:
            _log.info("reloaded", what=what)
