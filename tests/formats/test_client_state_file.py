"""Golden bytes of a client's state file: what was released stays readable."""

from pathlib import Path
from zlib import crc32

from holdfast.client.state_file import ClientStateFile
from holdfast.model.protocol import PUBLISH, V5
from holdfast.wire.publish import frame_publish

FRAME = frame_publish(PUBLISH << 4 | 4, b"t", 2, b"\0", b"x")


def batch(records: str) -> bytes:
    data = bytes.fromhex(records)
    return len(data).to_bytes(4, "little") + crc32(data).to_bytes(4, "little") + data


#: Identity (level 5, "c"); published with packet id 2 and source offset "o"; published with packet id 3.
HEADER = b"HFCLIENT\x01"
IDENTITY = batch("01 02000000 05 63")
PUBLISHED = batch("02 0c000000 0100 6f 3407000174000200 78" + "02 0b000000 0000 3407000174000300 79")
STEPS = batch("03 02000000 0200  04 02000000 0300  05 02000000 0900  05 02000000 0a00  06 02000000 0900")
LOST = batch("07 00000000")
#: Identity, source offset, released 2, received 10: what is left after the steps.
SNAPSHOT = batch("01 02000000 05 63  08 01000000 6f  03 02000000 0200  05 02000000 0a00")


def test_the_records_of_a_state_file(tmp_path: Path) -> None:
    path = tmp_path / "s"
    file = ClientStateFile(path, V5, "c")
    state = file.state

    def store() -> None:
        records, _urgent = state.take_records()
        file.store(records, sync=True)

    assert state.free_packet_id() == 1
    state.publish(2, b"t", FRAME, b"o")
    state.publish(3, b"t", frame_publish(PUBLISH << 4 | 4, b"t", 3, b"\0", b"y"))
    store()
    state.release(2)
    state.complete(3)
    state.receive(9)
    state.receive(10)
    state.forget(9)
    store()
    assert path.read_bytes() == HEADER + IDENTITY + PUBLISHED + STEPS
    state.reset()
    store()
    file.close()
    assert path.read_bytes() == HEADER + IDENTITY + PUBLISHED + STEPS + LOST


def test_a_state_file_is_read_and_compacted(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_bytes(HEADER + IDENTITY + PUBLISHED + STEPS)
    file = ClientStateFile(path, V5, "c")
    file.close()
    assert (list(file.state.outgoing), file.state.received, file.state.source_offset) == ([2], {10}, b"o")
    assert path.read_bytes() == HEADER + SNAPSHOT
    path.write_bytes(HEADER + IDENTITY + PUBLISHED + STEPS + LOST)
    file = ClientStateFile(path, V5, "c")
    file.close()
    assert (list(file.state.outgoing), file.state.received, file.state.source_offset) == ([], set(), b"o")
