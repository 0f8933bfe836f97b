"""SIGHUP to a real process: what changed in the settings file holds from then on, or is named."""

import signal

from tests.mqtt.broker_process import RunningBroker
from tests.mqtt.conftest import ONE_LISTENER, StartBroker
from tests.mqtt.raw import RawClient

NOT_RELOADED = "not reloaded, the old one stays"


def rewrite(broker: RunningBroker, settings_toml: str) -> None:
    """Change the settings file, and have it read."""
    (broker.folder / "holdfast.toml").write_text(ONE_LISTENER + settings_toml, encoding="utf-8")
    broker.reload()


def keys(broker: RunningBroker, event: str) -> list[str]:
    return [entry["key"] for entry in broker.events(event)]


def test_new_limits_hold_for_clients_that_are_connected_and_for_new_ones(start_broker: StartBroker) -> None:
    broker = start_broker()
    port = broker.ports["tcp"]
    with RawClient(port) as client:
        client.connect("stays")
        assert client.subscribe("a", "b") == (0, 0)
        rewrite(broker, "[limits]\nmax_subscriptions = 2\nmax_connections = 1\n[mqtt]\nreceive_maximum = 7\n")
        assert client.subscribe("a", "c") == (0, 0x97)
        with RawClient(port) as second:
            assert second.receive() is None, "one connection is the limit"
    assert keys(broker, "a setting changed") == [
        "mqtt.receive_maximum",
        "limits.max_connections",
        "limits.max_subscriptions",
    ]
    rewrite(broker, "[limits]\nmax_subscriptions = 2\n[mqtt]\nreceive_maximum = 7\n")
    with RawClient(port) as client:
        assert client.connect("new").properties.receive_maximum == 7


def test_flags_still_win_over_the_file_after_a_reload(start_broker: StartBroker) -> None:
    broker = start_broker("", "--set", "limits.max_subscriptions=1")
    rewrite(broker, "[limits]\nmax_subscriptions = 5\n")
    assert keys(broker, "a setting changed") == []
    with RawClient(broker.ports["tcp"]) as client:
        client.connect("c")
        assert client.subscribe("a", "b") == (0, 0x97)


def test_what_needs_a_restart_is_named_and_stays(start_broker: StartBroker) -> None:
    broker = start_broker()
    rewrite(broker, "[mqtt]\nmax_qos = 0\n[listeners.more]\nport = 0\n")
    assert keys(broker, "a setting needs a restart") == ["mqtt.max_qos", "listeners.more"]
    with RawClient(broker.ports["tcp"]) as client:
        assert client.connect("c").properties.maximum_qos is None
        assert client.subscribe("a", qos=2) == (2,)


def test_wrong_settings_are_named_and_the_old_ones_stay(start_broker: StartBroker) -> None:
    broker = start_broker("[limits]\nmax_subscriptions = 1\n")
    broker.expected_errors.add(NOT_RELOADED)
    rewrite(broker, "[limits]\nmax_subscriptions = 5\nmax_connection = 1\n")
    (entry,) = broker.events(NOT_RELOADED)
    assert entry["what"] == "settings"
    assert "did you mean limits.max_connections?" in entry["why"]
    with RawClient(broker.ports["tcp"]) as client:
        client.connect("c")
        assert client.subscribe("a", "b") == (0, 0x97)


def test_a_new_log_level_holds_without_a_restart(start_broker: StartBroker) -> None:
    broker = start_broker()
    rewrite(broker, '[log]\nlevel = "debug"\n')
    assert keys(broker, "a setting changed") == ["log.level"]
    before = len(broker.lines)
    (broker.folder / "holdfast.toml").write_text(f'{ONE_LISTENER}[mqtt]\nmax_qos = 1\n[log]\nlevel = "warning"\n')
    broker.process.send_signal(signal.SIGHUP)
    broker.wait_for("a setting needs a restart")
    with RawClient(broker.ports["tcp"]) as client:
        client.connect("c")
    broker.stop()
    assert len(broker.lines) == before + 1, "nothing below a warning, not even the goodbye"
