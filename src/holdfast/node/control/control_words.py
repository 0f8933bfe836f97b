"""What a broker answers by the control socket: one method for each word. Those of blocks are in `block_words`."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from holdfast.broker.broker import Broker
from holdfast.control.words import (
    BAD_REQUEST,
    NOT_FOUND,
    NOT_POSSIBLE,
    ClientDetail,
    ClusterInfo,
    Kicked,
    KickRequest,
    LogLevelRequest,
    NodeInfo,
    Nothing,
    Purged,
    Reloaded,
    ReloadedSetting,
    SessionRequest,
    Stats,
    Subscriptions,
    SubscriptionsRequest,
    TakeoverRows,
    TakeoversRequest,
    Watch,
)
from holdfast.model.errors import PermanentError, TransientError
from holdfast.node.control.block_words import BlockWords
from holdfast.node.control.broker_stats import BrokerStats
from holdfast.node.control.client_rows import ClientRowBuilder
from holdfast.node.control.control_server import ControlConnection, Handler, RefusedRequestError
from holdfast.node.control.control_watches import ControlWatches
from holdfast.node.control.slice_times import SliceTimes
from holdfast.node.control.subscription_search import find_subscriptions
from holdfast.node.node_state import NodeState
from holdfast.node.reload import ReloadOutcome, SettingChange
from holdfast.node.settings.values import format_toml

_KICKED: Final = "disconnected by an administrator"
LEVELS: Final = ("debug", "info", "warning", "error")


class ControlWords:
    """The words of one broker. Requires: its event loop."""

    def __init__(
        self,
        broker: Broker,
        state: NodeState,
        stats: BrokerStats,
        rows: ClientRowBuilder,
        watches: ControlWatches,
        slices: SliceTimes,
        owed_bound: Callable[[Mapping[int, int]], int] | None,
    ) -> None:
        self._broker: Final = broker
        self._state: Final = state
        self._stats: Final = stats
        self._rows: Final = rows
        self._watches: Final = watches
        self._slices: Final = slices
        self._owed_bound: Final = owed_bound
        #: What SIGHUP does, and the level of log lines: given by the process, if it is the broker's own.
        self.reload_all: Callable[[], ReloadOutcome] | None = None
        self.set_log_level: Callable[[str], None] | None = None

    def handlers(self) -> dict[str, Handler]:
        return {
            "node": self.node,
            "stats": self.stats,
            "watch": self.watch,
            "client": self.client,
            "subscriptions": self.subscriptions,
            "kick": self.kick,
            "end_session": self.end_session,
            "purge_queue": self.purge_queue,
            **BlockWords(self._broker).handlers(),
            "reload": self.reload,
            "log_level": self.log_level,
            "cluster": self.cluster,
            "takeovers": self.takeovers,
        }

    # ---- questions

    def node(self, _connection: ControlConnection, _body: Nothing) -> NodeInfo:
        return self._state.info()

    def stats(self, _connection: ControlConnection, _body: Nothing) -> Stats:
        return self._stats.gather()

    def watch(self, connection: ControlConnection, body: Watch) -> Nothing:
        self._watches.change(connection, body)
        return Nothing()

    def client(self, _connection: ControlConnection, body: SessionRequest) -> ClientDetail:
        self._rows.refresh()
        detail = self._rows.detail(body.session_id)
        if detail is not None:
            return detail
        if self._broker.sessions.record(body.session_id) is not None:
            raise RefusedRequestError(
                NOT_FOUND, f"session {body.session_id!r} is offline, and not in the broker's memory but in its files"
            )
        raise _no_session(body.session_id)

    async def subscriptions(self, _connection: ControlConnection, body: SubscriptionsRequest) -> Subscriptions:
        return await find_subscriptions(self._broker, body, self._slices.timed)

    def cluster(self, _connection: ControlConnection, _body: Nothing) -> ClusterInfo:
        if self._state.cluster_info is None:
            raise self._no_cluster()
        return self._state.cluster_info()

    def takeovers(self, _connection: ControlConnection, body: TakeoversRequest) -> TakeoverRows:
        if self._state.takeovers is None:
            raise self._no_cluster()
        return self._state.takeovers(body.session_id)

    def _no_cluster(self) -> RefusedRequestError:
        if self._is_in_cluster():
            return RefusedRequestError(NOT_POSSIBLE, "the broker is starting; try again in a while")
        return RefusedRequestError(NOT_FOUND, "this broker is a single node; set cluster.name for a cluster")

    # ---- commands

    def _check_started(self) -> None:
        if self._state.node is None:
            raise RefusedRequestError(NOT_POSSIBLE, "the broker is starting; try again in a while")

    def kick(self, _connection: ControlConnection, body: KickRequest) -> Kicked:
        self._check_started()
        address = self._broker.kick(body.session_id, body.reason or _KICKED)
        if not address:
            elsewhere = "; `holdfast sessions kick` finds it on any node" if self._is_in_cluster() else ""
            raise RefusedRequestError(
                NOT_FOUND, f"session {body.session_id!r} has no connection to this broker{elsewhere}"
            )
        return Kicked(address)

    def _is_in_cluster(self) -> bool:
        return self._broker.exchange.settings.log_decides

    def end_session(self, _connection: ControlConnection, body: SessionRequest) -> Nothing:
        self._check_started()
        with _refused():
            if not self._broker.end_session(body.session_id, "an administrator ended the session"):
                raise _no_session(body.session_id)
        return Nothing()

    async def purge_queue(self, _connection: ControlConnection, body: SessionRequest) -> Purged:
        self._check_started()
        self._rows.refresh()
        with _refused():
            count = await self._broker.administration.purge(body.session_id, self._owed_bound)
        if count is None:
            raise _no_session(body.session_id)
        return Purged(count)

    def reload(self, _connection: ControlConnection, _body: Nothing) -> Reloaded:
        if self.reload_all is None:
            raise RefusedRequestError(
                NOT_POSSIBLE, "this broker runs inside another program, which gives it its settings"
            )
        outcome = self.reload_all()
        return Reloaded(
            tuple(map(_setting, outcome.changed)), tuple(map(_setting, outcome.waiting)), dict(outcome.errors)
        )

    def log_level(self, _connection: ControlConnection, body: LogLevelRequest) -> Nothing:
        if body.level not in LEVELS:
            raise RefusedRequestError(BAD_REQUEST, f"level {body.level[:40]!r}; right would be {', '.join(LEVELS)}")
        if self.set_log_level is None:
            raise RefusedRequestError(NOT_POSSIBLE, "this broker runs inside another program, which has its own logs")
        self.set_log_level(body.level)
        return Nothing()


def _no_session(session_id: str) -> RefusedRequestError:
    return RefusedRequestError(NOT_FOUND, f"there is no session {session_id!r}")


@contextmanager
def _refused() -> Iterator[None]:
    """Turn what a session cannot take into a refusal."""
    try:
        yield
    except RefusedRequestError:
        raise
    except (TransientError, PermanentError) as error:
        raise RefusedRequestError(NOT_POSSIBLE, str(error)) from error


def _setting(change: SettingChange) -> ReloadedSetting:
    return ReloadedSetting(change.key, format_toml(change.before), format_toml(change.after))
