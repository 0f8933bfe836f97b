"""The client's state file: what it survives, what it refuses, and how large it gets."""

import os
import stat
from pathlib import Path

import pytest

from holdfast.client.options import ConnectionOptions
from holdfast.client.state import ClientState
from holdfast.client.state_file import COMPACT_BYTES, ClientStateFile, open_state
from holdfast.model.errors import MisuseError, PermanentError, PoisonedError, TransientError
from holdfast.model.protocol import PUBLISH, V5, V311
from holdfast.wire.publish import frame_publish


def opened(path: Path, client_id: str = "c", version: int = V5) -> ClientStateFile:
    return ClientStateFile(path, version, client_id)


def publish(state: ClientState, payload: bytes, offset: bytes = b"") -> int:
    packet_id = state.free_packet_id()
    state.publish(packet_id, b"t", frame_publish(PUBLISH << 4 | 4, b"t", packet_id, b"\0", payload), offset)
    return packet_id


def store(file: ClientStateFile, *, sync: bool = True) -> None:
    records, _urgent = file.state.take_records()
    snapshot = file.state.snapshot() if file.wants_snapshot(len(records)) else b""
    file.store(records, snapshot, sync=sync)


def contents(state: ClientState) -> tuple[list[tuple[int, bytes, bool]], set[int], bytes | None]:
    outgoing = [(packet_id, found.frame, found.released) for packet_id, found in state.outgoing.items()]
    return outgoing, state.received, state.source_offset


def test_what_was_stored_is_there_after_a_restart(tmp_path: Path) -> None:
    file = opened(tmp_path / "s")
    first = publish(file.state, b"1", b"offset 1")
    second = publish(file.state, b"2", b"offset 2")
    publish(file.state, b"3")
    store(file)
    file.state.complete(first)
    file.state.release(second)
    file.state.receive(9)
    file.state.receive(10)
    file.state.forget(9)
    store(file)
    file.close()
    again = opened(tmp_path / "s")
    assert contents(again.state) == contents(file.state)
    assert again.state.source_offset == b"offset 2"
    assert again.state.received == {10}
    again.close()
    assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o600


def test_a_file_that_is_cut_at_any_byte_has_the_batches_before_the_cut(tmp_path: Path) -> None:
    file = opened(tmp_path / "s")
    sizes = []
    for number in range(4):
        sizes.append((tmp_path / "s").stat().st_size)
        publish(file.state, b"%d" % number, b"%d" % number)
        publish(file.state, b"%d again" % number)
        store(file, sync=False)
    file.close()
    data = (tmp_path / "s").read_bytes()
    for size in range(sizes[0], len(data)):
        (tmp_path / "cut").write_bytes(data[:size])
        cut = opened(tmp_path / "cut")
        assert len(cut.state.outgoing) == 2 * sum(size >= end for end in [*sizes[1:], len(data)])
        cut.close()
    for at in range(sizes[1], sizes[2]):
        damaged = bytearray(data)
        damaged[at] ^= 0xFF
        (tmp_path / "cut").write_bytes(damaged)
        cut = opened(tmp_path / "cut")
        assert len(cut.state.outgoing) == 2
        cut.close()


def test_it_stays_small_however_much_is_published(tmp_path: Path) -> None:
    file = opened(tmp_path / "s")
    largest = 0
    for number in range(60):
        packet_id = publish(file.state, b"x" * 100_000, b"%d" % number)
        store(file, sync=False)
        file.state.complete(packet_id)
        store(file, sync=False)
        largest = max(largest, (tmp_path / "s").stat().st_size)
    assert largest < COMPACT_BYTES + 200_000
    file.close()
    again = opened(tmp_path / "s")
    assert contents(again.state) == ([], set(), b"59")
    again.close()


def test_one_process_has_it(tmp_path: Path) -> None:
    file = opened(tmp_path / "s")
    with pytest.raises(TransientError, match="in use by another process"):
        opened(tmp_path / "s")
    file.close()
    opened(tmp_path / "s").close()


@pytest.mark.parametrize(
    ("client_id", "version", "text"),
    [
        ("other", V5, "of the client 'c' with protocol level 5, and not of 'other' with 5; use one file for each"),
        ("c", V311, "of the client 'c' with protocol level 5, and not of 'c' with 4"),
    ],
)
def test_it_belongs_to_one_client(tmp_path: Path, client_id: str, version: int, text: str) -> None:
    opened(tmp_path / "s").close()
    with pytest.raises(PermanentError, match=text):
        opened(tmp_path / "s", client_id, version)
    opened(tmp_path / "s").close()


@pytest.mark.parametrize(
    ("data", "text"), [(b"something else", "is not the state file"), (b"HFCLIENT\x02", "has version 2; this program")]
)
def test_what_it_does_not_know_it_leaves_alone(tmp_path: Path, data: bytes, text: str) -> None:
    (tmp_path / "s").write_bytes(data)
    with pytest.raises(PermanentError, match=text):
        opened(tmp_path / "s")
    assert (tmp_path / "s").read_bytes() == data


def test_after_a_failed_sync_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = opened(tmp_path / "s")
    publish(file.state, b"1")

    def fail(_descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", fail)
        with pytest.raises(PoisonedError, match="Input/output error"):
            store(file)
    publish(file.state, b"2")
    with pytest.raises(PoisonedError, match="an earlier write failed"):
        store(file)
    file.close()


def test_it_asks_for_a_session_that_lasts(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match="needs a client id"):
        open_state(ConnectionOptions(), tmp_path / "s")
    options, file = open_state(ConnectionOptions(client_id="c"), tmp_path / "s")
    assert (options.clean_start, options.session_expiry_s) == (False, 4_294_967_295)
    file.close()
