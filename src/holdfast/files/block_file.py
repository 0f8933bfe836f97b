"""The block file: clients, users and addresses that a broker does not let in. Lines of JSON in the data folder.

    {"version": 1}                                         may be left out in a file written by hand
    {"client": "press-9", "until_us": 1767225600000000, "reason": "floods", "by": "eva", "since_us": 1767222000000000}
    {"user": "guest"}
    {"address": "10.0.0.0/24", "reason": "a scan"}

1. A line names one of `client`, `user` and `address`, and nothing twice. The other members may be left out.
2. `client` is the name of a session: the client id, behind a mount point with that and U+0000 in front.
3. `address` is an IP address or a network, in its shortest form after it was read.
4. A file with a wrong line is refused as a whole: a block that is not understood would block no one, unseen.
"""

import ipaddress
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from holdfast.files.private import FILE_MODE
from holdfast.files.replacement import replace_file
from holdfast.model.errors import SettingsError

#: In the data folder.
FILE_NAME: Final = "blocks.jsonl"
#: Never change its meaning. A reader refuses numbers that it does not know.
VERSION: Final = 1

CLIENT: Final = "client"
USER: Final = "user"
ADDRESS: Final = "address"
KINDS: Final = (CLIENT, USER, ADDRESS)

#: Keeps the file small enough to be replaced as a whole, and read within one loop iteration.
MAX_BLOCKS: Final = 10_000
MAX_REASON: Final = 1_000
#: So that a request of the control socket holds one.
MAX_NAME_BYTES: Final = 32_768
#: Bits of an IPv6 address in front of an IPv4 address that it stands for.
_MAPPED_BITS: Final = 96
_SHOWN_CHARS: Final = 100
_SHOWN_LINES: Final = 20
_MAX_US: Final = 2**63 - 1


class Block(msgspec.Struct, frozen=True):
    """Who is not let in, until when, and who said so."""

    #: One of KINDS.
    kind: str
    value: str
    #: 0: it does not end.
    until_us: int = 0
    reason: str = ""
    by: str = ""
    since_us: int = 0

    @property
    def key(self) -> tuple[str, str]:
        """There is one block of each key."""
        return self.kind, self.value

    def has_ended(self, now_us: int) -> bool:
        return self.until_us != 0 and now_us >= self.until_us


class _Line(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A line, as it stands in the file."""

    version: int | None = None
    client: str | None = None
    user: str | None = None
    address: str | None = None
    until_us: int = 0
    reason: str = ""
    by: str = ""
    since_us: int = 0


def checked_block(block: Block) -> Block:
    """The block with its address in the shortest form. SettingsError says what is wrong, and what would be right."""
    kind, value = block.kind, block.value
    if kind not in KINDS:
        raise SettingsError(f"{_cut(kind)} is no kind of block; it is one of {', '.join(KINDS)}")
    if not value:
        raise SettingsError(f"the {kind} of a block is empty; name the one that is not let in")
    size = len(value.encode(errors="surrogatepass"))
    if size > MAX_NAME_BYTES:
        raise SettingsError(f"the {kind} of a block has {size} bytes; at most {MAX_NAME_BYTES} are taken")
    if len(block.reason) > MAX_REASON:
        raise SettingsError(f"the reason of a block has {len(block.reason)} characters; at most {MAX_REASON} are kept")
    if not (0 <= block.until_us <= _MAX_US and 0 <= block.since_us <= _MAX_US):
        raise SettingsError("until_us and since_us are microseconds since 1970; until_us is 0 for a block without end")
    return msgspec.structs.replace(block, value=parse_address(value)) if kind == ADDRESS else block


def parse_address(text: str) -> str:
    """An IP address or a network in its shortest form. SettingsError if it is neither."""
    try:
        network = ipaddress.ip_network(text)
    except ValueError:
        raise SettingsError(_address_problem(text)) from None
    if isinstance(network, ipaddress.IPv6Network):
        mapped = network.network_address.ipv4_mapped
        if mapped is not None and network.prefixlen >= _MAPPED_BITS:
            network = ipaddress.ip_network((mapped, network.prefixlen - _MAPPED_BITS))
    return str(network.network_address) if network.num_addresses == 1 else str(network)


def _address_problem(text: str) -> str:
    try:
        wider = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return f"{_cut(text)} is no address; write such as 10.0.0.7, 10.0.0.0/24 or 2001:db8::/48"
    return f"{_cut(text)} has bits behind its prefix; write {wider} for the network"


def read_block_file(path: Path) -> list[Block]:
    """The blocks of a file, none if there is no file. SettingsError names every wrong line."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise SettingsError(f"the block file {path} cannot be read: {error.strerror}") from None
    found: dict[tuple[str, str], Block] = {}
    wrong: list[str] = []
    for number, line in enumerate(raw.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            block = _parse(line, is_first=number == 1)
            if block is not None:
                if block.key in found:
                    raise SettingsError(f"the {block.kind} {_cut(block.value)} is blocked by an earlier line already")
                found[block.key] = block
        except SettingsError as error:
            wrong.append(f"{path}:{number}: {error}")
    if wrong:
        rest = len(wrong) - _SHOWN_LINES
        raise SettingsError(
            "\n".join(wrong[:_SHOWN_LINES] + ([f"and {rest} more lines are wrong"] if rest > 0 else []))
        )
    check_number(len(found))
    return list(found.values())


def write_block_file(path: Path, blocks: Iterable[Block]) -> None:
    """Survives: a power loss, with the old file or the new one. SettingsError if it cannot be written."""
    lines = [msgspec.json.encode(_Line(version=VERSION)), *(_encode(block) for block in blocks)]
    try:
        replace_file(path, b"".join(line + b"\n" for line in lines), mode=FILE_MODE)
    except OSError as error:
        raise SettingsError(f"the block file {path} cannot be written: {error.strerror}") from None


def check_number(count: int) -> None:
    """SettingsError if there are more blocks than can be kept."""
    if count > MAX_BLOCKS:
        raise SettingsError(
            f"there would be {count} blocks, and {MAX_BLOCKS} are kept; remove some, or block a user or a network"
        )


def _parse(raw: bytes, *, is_first: bool) -> Block | None:
    """The block of a line; None for the version. SettingsError if it is neither."""
    try:
        line = msgspec.json.decode(raw, type=_Line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise SettingsError(f"this is no block ({error}); {_RIGHT}") from None
    named = [(kind, value) for kind in KINDS if (value := getattr(line, kind)) is not None]
    if line.version is not None:
        if named or not is_first:
            raise SettingsError("the version stands alone, in the first line")
        if line.version != VERSION:
            raise SettingsError(f"the file has version {line.version}, and this Holdfast knows {VERSION}; update it")
        return None
    if len(named) != 1:
        raise SettingsError(f"a line names one of {', '.join(KINDS)}, and this one {len(named)}; {_RIGHT}")
    ((kind, value),) = named
    return checked_block(Block(kind, value, line.until_us, line.reason, line.by, line.since_us))


_RIGHT: Final = 'right would be such as {"client": "press-9", "reason": "floods"}'


def _encode(block: Block) -> bytes:
    line = _Line(until_us=block.until_us, reason=block.reason, by=block.by, since_us=block.since_us)
    setattr(line, block.kind, block.value)
    return msgspec.json.encode(line)


def _cut(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…")
