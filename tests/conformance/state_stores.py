"""The state stores that one suite runs over: the dictionaries that are the model, and RocksDB."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from holdfast.durable.sessions.session_store import SessionStore
from holdfast.durable.state_machine.tables import CLUSTER, META, RETAINED, MemoryTables, StateStore
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.vnodes.vnode_store import RocksVnode

#: Opens the tables of a vnode, those that were left there.
Opener = Callable[[int], AbstractContextManager[StateStore]]
Backend = Callable[[Path], Opener]


def memory(_folder: Path) -> Opener:
    kept: dict[int, MemoryTables] = {}

    @contextmanager
    def open_again(vnode: int) -> Iterator[StateStore]:
        yield kept.setdefault(vnode, MemoryTables())

    return open_again


def rocks(folder: Path) -> Opener:
    @contextmanager
    def open_again(vnode: int) -> Iterator[StateStore]:
        engine = Engine.open(folder, reserve_bytes=0)
        try:
            yield RocksVnode(engine, vnode)
        finally:
            engine.close()

    return open_again


BACKENDS: dict[str, Backend] = {"memory": memory, "rocks": rocks}


def rows(store: StateStore) -> dict[str, list[tuple[bytes, bytes]]]:
    """Every row of every table but the sessions."""
    return {name: store.scan(name, b"", b"\xff" * 9, 0) for name in (CLUSTER, META, RETAINED)}


def sessions_of(store: StateStore) -> SessionStore:
    assert isinstance(store, MemoryTables | RocksVnode)
    return store.sessions
