"""Golden bytes of a journal of queues and of a file of queues: what was released stays readable."""

import io
from pathlib import Path
from zlib import crc32

from holdfast.storage.journal.queue.change import QueueChange, decode_changes
from holdfast.storage.journal.queue.message_file import (
    FULL,
    HEADER_BYTES,
    MESSAGE,
    decode_header,
    decode_record,
    encode_header,
    encode_record,
)
from holdfast.storage.journal.queue.state_file import (
    QueueState,
    decode_owner,
    decode_state,
    encode_owner,
    encode_state,
)
from holdfast.storage.journal.queue_folders import queue_hash, queue_id
from holdfast.storage.queue_file import QueueFile, QueueFileWriter
from tests.journal_world import entry

STATE = QueueState(1, 2, 301, 2, 7, 912, 17, 1204, 9, 12, True, 5, "5-8,11", "4")
STATE_LINE = (
    b"read_file=00000001 read_msg=2 read_byte=301 write_file=00000002 write_msg=7 write_byte=912 serial=17 number=1204 "
    b"given=9 commit=12 full=1 expires=5 done=5-8,11 released=4 check="
)


def with_check(line: bytes) -> bytes:
    return line + f"{crc32(line.removesuffix(b' check=')):08x}\n".encode()


def test_the_id_of_a_queue_comes_from_the_client_id() -> None:
    assert queue_id("") == "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NM"
    assert len(queue_hash("x")) == 24


def test_the_lines_of_a_state_file() -> None:
    assert encode_state(STATE) == with_check(STATE_LINE)
    assert decode_state(with_check(STATE_LINE)) == STATE
    line = encode_owner(queue_id("sensor-7"), "sensor-7")
    assert line == with_check(
        b"holdfast-queue version=1 id=%b client=c2Vuc29yLTc= check=" % queue_id("sensor-7").encode()
    )
    assert decode_owner(line) == (queue_id("sensor-7"), "sensor-7")


def test_the_header_and_the_records_of_a_message_file() -> None:
    owner = bytes(range(24))
    header = b"HFJM\x01" + (2).to_bytes(4, "little") + (7).to_bytes(8, "little") + owner
    header += crc32(header).to_bytes(4, "little")
    assert encode_header(2, 7, owner) == header
    assert len(header) == HEADER_BYTES == 45
    assert decode_header(header, 2, owner) == 7
    body = b"\x01" + (9).to_bytes(8, "little") + (5).to_bytes(4, "little") + b"value"
    length = len(body).to_bytes(4, "little")
    record = length + crc32(length + body).to_bytes(4, "little") + body
    assert encode_record(MESSAGE, 9, 5, b"value") == record
    found = decode_record(b"xx" + record, 2)
    assert found == (MESSAGE, 9, 5, b"value", record)
    assert encode_record(FULL, 9, 0, b"")[8:] == b"\x02" + (9).to_bytes(8, "little") + b"\0\0\0\0"


def test_a_change_in_a_commit_file() -> None:
    change = QueueChange("ü", full=True, number=3, gone="1-2", released="4", records=b"rec")
    change.base = b"base"
    stored = bytes.fromhex("01 01 0300000000000000 02000000 04000000 03000000 01000000 03000000".replace(" ", ""))
    stored += "ü".encode() + b"base" + b"1-2" + b"4" + b"rec"
    assert change.encode() == stored
    (found,) = decode_changes(stored)
    assert (found.client_id, found.base, found.gone, found.released, found.records) == (
        "ü",
        b"base",
        "1-2",
        "4",
        b"rec",
    )
    assert (found.kind, found.full, found.number) == (1, True, 3)


def test_a_file_of_queues(tmp_path: Path) -> None:
    output = io.BytesIO()
    writer = QueueFileWriter(output)
    writer.queue("c", 1, 7)
    one = entry(7, b"x")
    one.owed.serial = 1
    writer.message(one)
    writer.end()
    data = output.getvalue()
    content = b'{"client": "c", "serial": 1, "number": 7}'
    part = len(content).to_bytes(4, "little") + crc32(b"\x01" + content).to_bytes(4, "little") + b"\x01" + content
    assert data.startswith(b"HFQUEUE1" + part)
    assert data.endswith(b'\x03{"queues": 1, "messages": 1}')
    (tmp_path / "q").write_bytes(data)
    assert QueueFile(tmp_path / "q").queues["c"].messages == 1
