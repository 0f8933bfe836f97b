"""Log lines and events about clients are bounded, whatever one client does."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from holdfast.broker.client_log import BURST, MAX_LINES, MAX_TEXT_BYTES, WINDOW_S, ClientLog
from holdfast.broker.connections.connection_handler import TLS_HANDSHAKE
from holdfast.broker.deadlines import Deadlines
from holdfast.exchange.drops import CONNECT_REFUSED, DROP_DENIED, MAX_KINDS
from holdfast.model.clock import ManualClock
from holdfast.model.protocol import V5
from holdfast.wire.packets import Connect, Publish
from tests.slow_world import rules
from tests.world import World


def of(lines: list[EventDict], event: str) -> list[EventDict]:
    return [line for line in lines if line["event"] == event]


def test_denied_publishes_of_one_client_are_a_few_lines_and_their_number(tmp_path: Path) -> None:
    with World(authenticator=rules(tmp_path, "topic read #\n")) as world, capture_logs() as lines:
        writer = world.connect("writer")
        for number in range(5000):
            writer.send(Publish(f"t/{number % 500}", b""))
        denied = of(lines, "publish denied")
        assert [line["topic"] for line in denied] == [f"t/{number}" for number in range(BURST)]
        world.advance(WINDOW_S)
        last = of(lines, "publish denied")[-1]
        assert (last["client"], last["more"], last["in_s"]) == ("writer", 5000 - BURST, WINDOW_S)
        writer.send(Publish("later", b""))
        assert of(lines, "publish denied")[-1]["topic"] == "later", "a new window has lines again"


def test_events_about_denied_publishes_are_bounded_and_none_is_left_out_of_their_count(tmp_path: Path) -> None:
    with World(authenticator=rules(tmp_path, "topic read #\n")) as world:
        writer = world.connect("writer")
        for number in range(500):
            writer.send(Publish(f"t/{number}", b""))
        events = [event for event in world.broker.exchange.drops.take() if event.reason == DROP_DENIED]
        assert len(events) == MAX_KINDS + 1
        assert sum(event.count for event in events) == 500


def test_what_is_left_out_is_told_when_the_broker_stops(tmp_path: Path) -> None:
    with capture_logs() as lines:
        with World(authenticator=rules(tmp_path, "topic read #\n")) as world:
            writer = world.connect("writer")
            for _message in range(4 * BURST):
                writer.send(Publish("t", b""))
        assert of(lines, "publish denied")[-1]["more"] == 3 * BURST


def test_refused_connections_of_one_address_are_a_few_lines_per_reason() -> None:
    with World() as world, capture_logs() as lines:
        for number in range(50):
            peer = world.peer()
            peer.send(Connect(V5, f"c{number}"))
            peer.send(Connect(V5, f"c{number}"))  # a second CONNECT
        assert len(of(lines, "disconnected")) == 50, "clients that were in have lines of their own"
        for _refused in range(50):
            peer = world.peer()
            peer.send(Publish("a", b""))  # no CONNECT
        refused = of(lines, "refused")
        assert len(refused) == BURST


def test_many_clients_together_are_bounded_and_so_is_what_is_remembered() -> None:
    clock = ManualClock()
    log = ClientLog(Deadlines(clock))
    with capture_logs() as lines:
        for number in range(10_000):
            log.info("refused", "client", client=f"c{number}")
        assert len(lines) == MAX_LINES
        assert len(log._lines) <= MAX_LINES
        log.close_window()
    assert {key: lines[-1][key] for key in ("event", "more")} == {"event": "refused", "more": 10_000 - MAX_LINES}
    assert "client" not in lines[-1]


def test_reasons_and_events_of_one_client_do_not_hide_each_other() -> None:
    log = ClientLog(Deadlines(ManualClock()))
    with capture_logs() as lines:
        for _repeat in range(4 * BURST):
            for event, reason in (("refused", 0x87), ("refused", 0x89), ("disconnected", 0x87)):
                log.info(event, "client", reason=reason, client="c")
    assert len(lines) == 3 * BURST


def test_texts_of_clients_are_cut() -> None:
    log = ClientLog(Deadlines(ManualClock()))
    with capture_logs() as lines:
        log.info("publish denied", "client", client="c" * 65_535, topic="t" * 65_535)
        log.info("publish denied", "client", client="c" * 65_535, topic="t" * 65_535)
        log.close_window()
    assert all(len(str(line)) < 3 * MAX_TEXT_BYTES for line in lines)


def test_a_bug_is_told_with_its_traceback_and_not_each_time() -> None:
    log = ClientLog(Deadlines(ManualClock()))
    bug = RuntimeError("a bug")
    with capture_logs() as lines:
        for _repeat in range(4 * BURST):
            log.error("a connect failed", "address", error=bug, address="192.0.2.1")
    assert [line["exc_info"] for line in lines] == [bug] * BURST


@pytest.mark.parametrize("seconds", [WINDOW_S, 10 * WINDOW_S])
def test_a_window_without_anything_left_out_writes_nothing_at_its_end(seconds: int) -> None:
    with World() as world, capture_logs() as lines:
        world.peer().send(Publish("a", b""))
        world.advance(seconds)
    assert len(of(lines, "refused")) == 1


def test_connections_that_never_spoke_mqtt_are_counted_and_noted_and_their_lines_are_bounded() -> None:
    with World() as world, capture_logs() as lines:
        for _attempt in range(50):
            world.do(lambda: world.broker.refused("secure", "192.0.2.1", TLS_HANDSHAKE, "NO_SHARED_CIPHER"))
        assert world.broker.exchange.counters.handshakes_failed == {TLS_HANDSHAKE: 50}
        (event,) = world.broker.exchange.drops.take()
        assert (event.reason, event.count) == (CONNECT_REFUSED, 50)
        assert "NO_SHARED_CIPHER (listener secure, from 192.0.2.1)" in event.detail
        world.advance(WINDOW_S)
    written = of(lines, TLS_HANDSHAKE)
    assert len(written) == BURST + 1
    assert written[0]["address"] == "192.0.2.1"
