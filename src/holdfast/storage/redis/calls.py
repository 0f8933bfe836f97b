"""Many script calls at once: grouped by server, one plain pipeline for each, again until they arrive or time is up.

1. Every script may be run twice: what it does the second time is nothing. So whatever is uncertain is sent again.
2. A call that failed keeps its place in the answer; others are not concerned.
3. Calls of one `run` are of different clients, or their order does not matter.
"""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from redis.exceptions import (
    AskError,
    ClusterDownError,
    MovedError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    TryAgainError,
)

from holdfast.model.errors import PermanentError, TransientError
from holdfast.storage.redis.keys import STATE
from holdfast.storage.redis.line import Argument, Line, LostError, Reply
from holdfast.storage.redis.options import RedisOptions
from holdfast.storage.redis.scripts import APPEND, Script
from holdfast.storage.redis.servers import Servers

#: Of one pipeline: enough to make round trips cheap, few enough for one answer to come in time.
_CALLS: Final = 1_000

#: So many times in a row a call goes where it was pointed to at once. Then the cluster is not at one with itself.
_REDIRECTIONS: Final = 5
_FIRST_PAUSE_S: Final = 0.02
_LONGEST_PAUSE_S: Final = 1.0

#: Refusals that pass: another server is master now, one is loading or busy or full, or its disk fails.
_PASSING: Final = (
    MovedError,
    AskError,
    TryAgainError,
    ClusterDownError,
    ReadOnlyError,
    OutOfMemoryError,
    NoScriptError,
)
_PASSING_WORDS: Final = (
    *("LOADING", "BUSY", "NOREPLICAS", "MISCONF", "MASTERDOWN", "UNKILLABLE", "NOAUTH", "WRONGPASS"),
    # Inside the reply of a script there are words alone.
    *("OOM", "READONLY"),
)


class Call:
    """A script, what the keys of its clients begin with, and what it is told. Only APPEND has several clients."""

    def __init__(self, script: Script, bases: Sequence[bytes], arguments: Sequence[Argument]) -> None:
        self.script: Final = script
        self.base: Final = bases[0]
        keys = [key for base in bases for key in (base, base + STATE)]
        self.command: Final = (b"EVALSHA", script.sha, len(keys), *keys, *arguments)
        #: What became of it, once it is known; until then why it is not.
        self.reply: Reply = None
        self.obstacle = ""
        self.done = False
        #: Of APPEND: the answers of clients that were served while another one was refused for a while, by their place.
        #: It is sent again as a whole, and tells of these only that they were given everything before.
        self.served: dict[int, Reply] = {}
        #: The server that another one pointed to, for the next try alone.
        self.asked: Line | None = None

    def outcome(self) -> Reply:
        """Its reply. TransientError: nobody knows. PermanentError: Redis refused it and will again."""
        if not self.done:
            raise TransientError(self.obstacle)
        if isinstance(self.reply, ResponseError):
            raise PermanentError(f"Redis refused a call: {self.reply}")
        return self.reply


class Calls:
    """Sends calls. With `safe`, they count as done when so many copies have them as the options say."""

    def __init__(self, servers: Servers, options: RedisOptions) -> None:
        self._servers: Final = servers
        self._options: Final = options

    async def run(self, calls: Sequence[Call], *, safe: bool = False) -> None:
        """Ensures: every call is done, or `give_up_s` had passed when the last try failed."""
        now_s = asyncio.get_running_loop().time
        until_s = now_s() + self._options.give_up_s
        pause_s = _FIRST_PAUSE_S
        waiting = list(calls)
        redirections = 0
        if waiting and self._servers.line_of(waiting[0].base) is None:
            await self._look_again(waiting)
        while True:
            redirections = redirections + 1 if await self._try(waiting, safe=safe) else 0
            waiting = [call for call in waiting if not call.done]
            left_s = until_s - now_s()
            if not waiting or left_s <= 0:
                return
            if not 0 < redirections <= _REDIRECTIONS:
                await asyncio.sleep(min(pause_s, left_s))
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            await self._look_again(waiting)

    async def _look_again(self, waiting: list[Call]) -> None:
        try:
            await self._servers.refresh(self._options.timeout_s)
        except LostError as lost:
            for call in waiting:
                call.obstacle = str(lost)

    async def _try(self, calls: list[Call], *, safe: bool) -> bool:
        """One round. Whether all that is left was only sent to the wrong server."""
        groups: dict[Line, list[Call]] = defaultdict(list)
        for call in calls:
            line = call.asked or self._servers.line_of(call.base)
            if line is None:
                call.obstacle = call.obstacle or "no Redis server is known yet"
            else:
                groups[line].append(call)
        if not self._options.pipelined:
            moved = [await self._pipeline(line, [call], safe=safe) for line in groups for call in groups[line]]
            return bool(moved) and all(moved)
        tasks = []
        async with asyncio.TaskGroup() as group:
            for line, wanted in groups.items():
                for at in range(0, len(wanted), _CALLS):
                    part = wanted[at : at + _CALLS]
                    tasks.append(group.create_task(self._pipeline(line, part, safe=safe)))
        return bool(tasks) and all(task.result() for task in tasks)

    async def _pipeline(self, line: Line, calls: list[Call], *, safe: bool) -> bool:
        """Whether what was left over has only another address."""
        options = self._options
        commands: list[Sequence[Argument]] = []
        for call in calls:
            if call.asked is not None:
                commands.append((b"ASKING",))
            commands.append(call.command)
        copies = options.replicas if safe else 0
        if copies:
            commands.append((b"WAIT", copies, int(options.replicas_timeout_s * 1000)))
        timeout_s = options.timeout_s
        try:
            replies = await line.run(commands, timeout_s)
            missing = {call.script for call, reply in _matched(calls, replies) if isinstance(reply, NoScriptError)}
            if missing:
                await line.run([(b"SCRIPT", b"LOAD", script.source) for script in missing], timeout_s)
                replies = await line.run(commands, timeout_s)
        except LostError as lost:
            for call in calls:
                call.asked = None
                call.obstacle = str(lost)
            return False
        if copies:
            have = replies.pop()
            if not isinstance(have, int) or have < copies:
                for call in calls:
                    call.asked = None
                    call.obstacle = f"{have} of {copies} copies have what Redis at {line.name} was given"
                return False
        return self._settle(line, calls, replies)

    def _settle(self, line: Line, calls: list[Call], replies: list[Reply]) -> bool:
        only_moved = True
        for call, answer in _matched(calls, replies):
            call.asked = None
            reply = _passing_part(call, answer) if call.script is APPEND else answer
            if not _passes(reply):
                call.reply = answer
                call.done = True
                continue
            call.obstacle = f"Redis at {line.name}: {reply}"
            if isinstance(reply, AskError) and not isinstance(reply, MovedError):
                call.asked = self._servers.line_to((reply.host, reply.port))
            elif not isinstance(reply, MovedError):
                only_moved = False
        return only_moved


def _passes(reply: Reply) -> bool:
    return isinstance(reply, _PASSING) or (isinstance(reply, ResponseError) and str(reply).startswith(_PASSING_WORDS))


def _passing_part(call: Call, reply: Reply) -> Reply:
    """What passes, if a client was refused for that. What is wrong with a queue for good does not pass."""
    passing: Reply = reply
    served: dict[int, Reply] = {}
    for place, answer in enumerate(reply if isinstance(reply, list) else []):
        if isinstance(answer, bytes) and _passes(refused := ResponseError(answer.decode(errors="replace"))):
            passing = refused
        else:
            served[place] = answer
    if passing is not reply:
        call.served = {**served, **call.served}
    return passing


def _matched(calls: list[Call], replies: list[Reply]) -> list[tuple[Call, Reply]]:
    """Each call with its reply, past those to ASKING."""
    found: list[tuple[Call, Reply]] = []
    place = 0
    for call in calls:
        place += call.asked is not None
        found.append((call, replies[place]))
        place += 1
    return found
