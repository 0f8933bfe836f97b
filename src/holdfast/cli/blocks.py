"""`holdfast blocks`: who is not let in. By the broker if it runs, else in the block file of its data folder."""

import asyncio
import json
import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from holdfast.broker.access.blocks import Blocks
from holdfast.broker.access.text_file import editing
from holdfast.cli.clients import MountPoint, session_id
from holdfast.cli.commands import FAILED, Commands, exit_on, fail
from holdfast.cli.options.control_client import ControlClient, RunningBroker
from holdfast.cli.options.groups import Json, grouped
from holdfast.cli.options.times import parse_expiry
from holdfast.cli.output.table import TableColumn, print_table
from holdfast.cli.output.text import describe_session, format_time, printable
from holdfast.control.block_batches import block_batches
from holdfast.control.words import (
    Blocked,
    BlockInfo,
    BlockRequest,
    BlockRows,
    BlocksRequest,
    Unblocked,
    UnblockRequest,
)
from holdfast.files.block_file import ADDRESS, CLIENT, FILE_NAME, KINDS, USER, Block, checked_block
from holdfast.model.errors import SettingsError
from holdfast.node.control.block_words import block_info
from holdfast.node.system_clock import SystemClock

blocks = Commands(
    name="blocks", help="Clients, users and addresses that a broker does not let in: list, add and remove."
)

_NO_END: Final = "without end"


@dataclass(frozen=True, kw_only=True)
class Targets:
    """Who is meant; each option may be repeated."""

    client: Annotated[list[str] | None, typer.Option(metavar="CLIENT_ID", help="A client id. May be repeated.")] = None
    user: Annotated[list[str] | None, typer.Option(help="A user, as the broker verified it. May be repeated.")] = None
    address: Annotated[
        list[str] | None, typer.Option(help="An IP address, or a network such as 10.0.0.0/24. May be repeated.")
    ] = None
    mount_point: MountPoint = ""

    def keys(self) -> list[tuple[str, str]]:
        """Kind and value of each. Prints an error and exits if there is none, or one is wrong."""
        found = [(CLIENT, session_id(name, self.mount_point)) for name in self.client or ()]
        found += [(USER, name) for name in self.user or ()]
        found += [(ADDRESS, text) for text in self.address or ()]
        if not found:
            fail(f"name who is meant: {', '.join(f'--{kind}' for kind in KINDS)}")
        with exit_on(SettingsError):
            return [checked_block(Block(kind, value)).key for kind, value in found]


@blocks.command("list")
@grouped
def list_blocks(broker: RunningBroker, as_json: Json = False) -> None:
    """List the blocks in force, the newest first."""
    with broker.connected_if_running() as control:
        if control is None:
            with exit_on(SettingsError):
                found = [block_info(block) for block in _blocks_of(broker).listed()]
            problem = ""
        else:
            found, problem = _ask_for_all(control)
    if as_json:
        typer.echo(json.dumps({"items": msgspec.to_builtins(found), "problem": problem}, indent=2, ensure_ascii=False))
    else:
        if found:
            print_table(
                found,
                TableColumn("by", lambda one: one.kind),
                TableColumn("blocked", _describe, least=16),
                TableColumn("until (UTC)", lambda one: format_time(one.until_us)[:19] if one.until_us else _NO_END),
                TableColumn("reason", lambda one: printable(one.reason), least=10, dispensable=1),
                TableColumn("who", lambda one: printable(one.by), dispensable=2),
                TableColumn("since (UTC)", lambda one: format_time(one.since_us)[:19], dispensable=3),
            )
        typer.echo(f"{len(found)} blocks")
    if problem:
        fail(f"the block file is wrong, and what was in force before stays:\n{problem}", FAILED)


@blocks.command()
@grouped
def add(
    targets: Targets,
    broker: RunningBroker,
    expires: Annotated[
        str | None, typer.Option(help="When it ends: 1h, 7d, or a time such as 2027-01-01.", show_default="never")
    ] = None,
    reason: Annotated[str, typer.Option(help="Why, for those who see the list. Clients are not told.")] = "",
    as_json: Json = False,
) -> None:
    """Block clients, users or addresses: they are refused, and disconnected if they are connected.

    MQTT 5 clients are told 0x8A, MQTT 3 clients 5. Sessions stay, and their messages wait. A block that there was takes
    the new end and reason.
    """
    keys = targets.keys()
    until_us = 0 if expires is None else parse_expiry(expires)
    by = _own_name()
    disconnected = 0
    with broker.connected_if_running() as control:
        if control is None:
            with _edited(broker) as kept:
                now_us = SystemClock().wall_us()
                asyncio.run(kept.add([Block(*key, until_us, reason, by, now_us) for key in keys]))
        else:
            for batch in block_batches(keys):
                disconnected += control.ask("block", BlockRequest(batch, until_us, reason, by), Blocked).disconnected
    if as_json:
        typer.echo(json.dumps({"blocked": len(keys), "disconnected": disconnected, "until_us": until_us}))
    else:
        until = f"until {format_time(until_us)[:19]} UTC" if until_us else _NO_END
        typer.echo(f"blocked {len(keys)}, {until}; {disconnected} connections were closed")


@blocks.command()
@grouped
def remove(targets: Targets, broker: RunningBroker, as_json: Json = False) -> None:
    """Take blocks away: who was blocked may connect again."""
    keys = targets.keys()
    removed = 0
    with broker.connected_if_running() as control:
        if control is None:
            with _edited(broker) as kept:
                removed = len(asyncio.run(kept.remove(keys)))
            if not removed:
                fail(f"{_file_of(broker)} has no such block; see: holdfast blocks list", FAILED)
        else:
            for batch in block_batches(keys):
                removed += len(control.ask("unblock", UnblockRequest(batch), Unblocked).blocks)
    typer.echo(json.dumps({"removed": removed}) if as_json else f"removed {removed} of {len(keys)} blocks")


def _ask_for_all(control: ControlClient) -> tuple[list[BlockInfo], str]:
    """All blocks of a running broker, and what is wrong with its file."""
    found: list[BlockInfo] = []
    while True:
        part = control.ask("blocks", BlocksRequest(found[-1] if found else None), BlockRows)
        found += part.items
        if not part.more:
            return found, part.problem


def _blocks_of(broker: RunningBroker) -> Blocks:
    """Those in the file of a stopped broker. SettingsError if it is wrong."""
    return Blocks(_file_of(broker), SystemClock())


def _file_of(broker: RunningBroker) -> Path:
    folder = broker.folder()
    if not folder.is_dir():
        fail(f"there is no data folder {folder}; name that of the broker with --data", FAILED)
    return folder / FILE_NAME


@contextmanager
def _edited(broker: RunningBroker) -> Iterator[Blocks]:
    """The blocks in the file, while no other process edits it."""
    with exit_on(SettingsError, code=FAILED), editing(_file_of(broker), "block file"):
        yield _blocks_of(broker)


def _describe(block: BlockInfo) -> str:
    return describe_session(block.value) if block.kind == CLIENT else printable(block.value)


def _own_name() -> str:
    """The user of this process."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"
