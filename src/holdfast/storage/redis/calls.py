"""Many script calls at once: grouped by server, one pipeline for each, repeated until they succeed or the time is up.

1. Every script is idempotent, so a call with an unknown result is sent again.
2. A failed call does not affect the others.
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
from holdfast.storage.redis.connection_pool import Argument, ConnectionLostError, RedisPool, Reply
from holdfast.storage.redis.keys import STATE
from holdfast.storage.redis.options import RedisOptions
from holdfast.storage.redis.scripts import APPEND, Script
from holdfast.storage.redis.servers import Servers

#: Of one pipeline: enough to make round trips cheap, few enough to finish within the timeout.
_CALLS: Final = 1_000

#: So many redirections in a row a call follows at once; more mean that the cluster is inconsistent.
_REDIRECTIONS: Final = 5
_FIRST_PAUSE_S: Final = 0.02
_LONGEST_PAUSE_S: Final = 1.0

#: Temporary refusals: another server is master, or this one is loading, busy, full, or its disk fails.
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
    # Errors inside the reply of a script are text only.
    *("OOM", "READONLY"),
)


class ScriptCall:
    """A script, the key prefixes of its clients, and its arguments. Only APPEND has several clients."""

    def __init__(self, script: Script, bases: Sequence[bytes], arguments: Sequence[Argument]) -> None:
        self.script: Final = script
        self.base: Final = bases[0]
        keys = [key for base in bases for key in (base, base + STATE)]
        self.command: Final = (b"EVALSHA", script.sha, len(keys), *keys, *arguments)
        #: The result once it is known; until then the obstacle.
        self.reply: Reply = None
        self.obstacle = ""
        self.done = False
        #: Of APPEND: results of clients that succeeded while another one was refused temporarily, by their index. The
        #: whole call is sent again, and then reports for these only that the messages were stored before.
        self.served: dict[int, Reply] = {}
        #: The server of an ASK redirection, for the next attempt only.
        self.asked: RedisPool | None = None

    def outcome(self) -> Reply:
        """The reply. TransientError: the result is unknown. PermanentError: Redis refused the call for good."""
        if not self.done:
            raise TransientError(self.obstacle)
        if isinstance(self.reply, ResponseError):
            raise PermanentError(f"Redis refused a call: {self.reply}")
        return self.reply


class Calls:
    """Sends calls. With `safe`, they are done when the configured number of replicas have them."""

    def __init__(self, servers: Servers, options: RedisOptions) -> None:
        self._servers: Final = servers
        self._options: Final = options

    async def run(self, calls: Sequence[ScriptCall], *, safe: bool = False) -> None:
        """Ensures: every call is done, or `give_up_s` had passed when its last attempt failed."""
        now_s = asyncio.get_running_loop().time
        until_s = now_s() + self._options.give_up_s
        pause_s = _FIRST_PAUSE_S
        waiting = list(calls)
        redirections = 0
        if waiting and self._servers.pool_of(waiting[0].base) is None:
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

    async def _look_again(self, waiting: list[ScriptCall]) -> None:
        try:
            await self._servers.refresh(self._options.timeout_s)
        except ConnectionLostError as lost:
            for call in waiting:
                call.obstacle = str(lost)

    async def _try(self, calls: list[ScriptCall], *, safe: bool) -> bool:
        """One round. Whether all remaining calls were only redirected."""
        groups: dict[RedisPool, list[ScriptCall]] = defaultdict(list)
        for call in calls:
            pool = call.asked or self._servers.pool_of(call.base)
            if pool is None:
                call.obstacle = call.obstacle or "no Redis server is known yet"
            else:
                groups[pool].append(call)
        if not self._options.pipelined:
            moved = [await self._pipeline(pool, [call], safe=safe) for pool in groups for call in groups[pool]]
            return bool(moved) and all(moved)
        tasks = []
        async with asyncio.TaskGroup() as group:
            for pool, wanted in groups.items():
                for at in range(0, len(wanted), _CALLS):
                    part = wanted[at : at + _CALLS]
                    tasks.append(group.create_task(self._pipeline(pool, part, safe=safe)))
        return bool(tasks) and all(task.result() for task in tasks)

    async def _pipeline(self, pool: RedisPool, calls: list[ScriptCall], *, safe: bool) -> bool:
        """Whether the remaining calls were only redirected."""
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
            replies = await pool.run(commands, timeout_s)
            missing = {call.script for call, reply in _matched(calls, replies) if isinstance(reply, NoScriptError)}
            if missing:
                await pool.run([(b"SCRIPT", b"LOAD", script.source) for script in missing], timeout_s)
                replies = await pool.run(commands, timeout_s)
        except ConnectionLostError as lost:
            for call in calls:
                call.asked = None
                call.obstacle = str(lost)
            return False
        if copies:
            have = replies.pop()
            if not isinstance(have, int) or have < copies:
                for call in calls:
                    call.asked = None
                    call.obstacle = f"{have} of {copies} copies have what Redis at {pool.name} was given"
                return False
        return self._settle(pool, calls, replies)

    def _settle(self, pool: RedisPool, calls: list[ScriptCall], replies: list[Reply]) -> bool:
        only_moved = True
        for call, answer in _matched(calls, replies):
            call.asked = None
            reply = _passing_part(call, answer) if call.script is APPEND else answer
            if not _passes(reply):
                call.reply = answer
                call.done = True
                continue
            call.obstacle = f"Redis at {pool.name}: {reply}"
            if isinstance(reply, AskError) and not isinstance(reply, MovedError):
                call.asked = self._servers.pool_to((reply.host, reply.port))
            elif not isinstance(reply, MovedError):
                only_moved = False
        return only_moved


def _passes(reply: Reply) -> bool:
    return isinstance(reply, _PASSING) or (isinstance(reply, ResponseError) and str(reply).startswith(_PASSING_WORDS))


def _passing_part(call: ScriptCall, reply: Reply) -> Reply:
    """A temporary refusal of a client in the reply. Permanent errors of a queue do not count."""
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


def _matched(calls: list[ScriptCall], replies: list[Reply]) -> list[tuple[ScriptCall, Reply]]:
    """Each call with its reply, without the replies to ASKING."""
    found: list[tuple[ScriptCall, Reply]] = []
    place = 0
    for call in calls:
        place += call.asked is not None
        found.append((call, replies[place]))
        place += 1
    return found
