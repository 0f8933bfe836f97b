"""The state of a queue as a line of text, and the line that says whose queue it is. Both are in `queue.log`.

    holdfast-queue version=1 id=4tDAhd… client=c2Vuc29yLTc check=9d2b8f04
    read_file=00000001 read_msg=2 read_byte=301 write_file=00000002 write_msg=7 write_byte=912 serial=17 number=1204
        given=9 commit=1790000000000012 full=0 expires=0 done=5-8,11 released=4 check=0c6fb7a2       (one line)

1. The last line that is whole and has the right checksum is the state.
2. `read_…` is the place of the first message that is not acknowledged; everything before it is gone. `write_…` is the
   end. `msg` counts from the start of a file, `byte` too. A `byte` of 0: the file is not there yet.
3. `serial` is the last one given out, `number` the last one taken, `commit` the last change that is in the line.
4. `done` are serials above the place of reading that are gone all the same, `released` those that PUBREC came for.
5. `given` is the last serial that was read; limits concern what lies above it. It may be behind after a crash.
6. `expires` is not above the expiry of any message; 0 if none has one.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final, NamedTuple
from zlib import crc32

from holdfast.model.errors import PermanentError
from holdfast.storage.journal.queue.serials import Serials

#: Never change.
_TITLE: Final = "holdfast-queue"
VERSION: Final = 1
_CHECK: Final = " check="
_STATE_KEYS: Final = (
    *("read_file", "read_msg", "read_byte", "write_file", "write_msg", "write_byte", "serial", "number"),
    *("given", "commit", "full", "expires", "done", "released"),
)


class QueueState(NamedTuple):
    """See the rules above. The first state of a queue is `QueueState()`."""

    read_file: int = 1
    read_msg: int = 0
    read_byte: int = 0
    write_file: int = 1
    write_msg: int = 0
    write_byte: int = 0
    serial: int = 0
    number: int = 0
    given: int = 0
    commit: int = 0
    full: bool = False
    expires_us: int = 0
    done: str = "-"
    released: str = "-"


def encode_owner(queue_id: str, client_id: str) -> bytes:
    client = urlsafe_b64encode(client_id.encode()).decode()
    return _checked(f"{_TITLE} version={VERSION} id={queue_id} client={client}")


def decode_owner(line: bytes) -> tuple[str, str] | None:
    """The queue's id and its client; None if the line is not whole. PermanentError: of a version that is not known."""
    text = _unchecked(line)
    if text is None or not text.startswith(f"{_TITLE} "):
        return None
    fields = _fields(text[len(_TITLE) + 1 :])
    if fields.get("version") != str(VERSION):
        raise PermanentError(f"a queue has version {fields.get('version')}, this Holdfast reads version {VERSION}")
    try:
        return fields["id"], urlsafe_b64decode(fields["client"]).decode()
    except (KeyError, ValueError):
        return None


def encode_state(state: QueueState) -> bytes:
    files = f"read_file={state.read_file:08x} read_msg={state.read_msg} read_byte={state.read_byte}"
    files += f" write_file={state.write_file:08x} write_msg={state.write_msg} write_byte={state.write_byte}"
    last = f"serial={state.serial} number={state.number} given={state.given} commit={state.commit}"
    rest = f"full={int(state.full)} expires={state.expires_us} done={state.done} released={state.released}"
    return _checked(f"{files} {last} {rest}")


def decode_state(line: bytes) -> QueueState | None:
    """None if the line is torn or damaged."""
    text = _unchecked(line)
    if text is None:
        return None
    fields = _fields(text)
    if tuple(fields) != _STATE_KEYS:
        return None
    try:
        Serials.parse(fields["done"])
        Serials.parse(fields["released"])
        numbers = [int(fields[key], 16 if key.endswith("_file") else 10) for key in _STATE_KEYS[:12]]
    except (ValueError, PermanentError):
        return None
    first, full, expires_us = numbers[:10], bool(numbers[10]), numbers[11]
    return QueueState._make([*first, full, expires_us, fields["done"], fields["released"]])


def _checked(text: str) -> bytes:
    return f"{text}{_CHECK}{crc32(text.encode()):08x}\n".encode()


def _unchecked(line: bytes) -> str | None:
    """The text of a line without its checksum; None if it has no end or the wrong one."""
    if not line.endswith(b"\n"):
        return None
    try:
        text, found, check = line[:-1].decode("ascii").rpartition(_CHECK)
    except UnicodeDecodeError:
        return None
    return text if found and check == f"{crc32(text.encode()):08x}" else None


def _fields(text: str) -> dict[str, str]:
    return {key: value for key, _, value in (part.partition("=") for part in text.split(" "))}
