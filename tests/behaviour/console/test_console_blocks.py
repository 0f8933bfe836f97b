"""Blocks by the console of a real broker process: a selection at once, a restart, and the way back."""

import queue
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from tests.behaviour.console.test_console_jobs import log_in
from tests.behaviour.console.test_console_process import Place, place
from tests.history.processes import until

pytestmark = pytest.mark.slow

IN = 0
BANNED = 0x8A
#: What paho makes of 5, the return code of MQTT 3.
NOT_AUTHORIZED = 0x87


class Client:
    """A client that notes what it is answered, and does not come back by itself."""

    def __init__(self, here: Place, name: str, version: MQTTProtocolVersion = MQTTProtocolVersion.MQTTv5) -> None:
        self.answers: queue.Queue[int] = queue.Queue()
        self.ends: queue.Queue[int] = queue.Queue()
        self._client = paho.Client(
            CallbackAPIVersion.VERSION2, client_id=name, protocol=version, reconnect_on_failure=False
        )
        self._client.on_connect = lambda _client, _user, _flags, reason, _more: self.answers.put(reason.value)
        self._client.on_disconnect = lambda _client, _user, _flags, reason, _more: self.ends.put(reason.value)
        self._client.connect("127.0.0.1", here.port)
        self._client.loop_start()
        #: What CONNACK said.
        self.answer = self.answers.get(timeout=30)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


def answers(here: Place, *names: str, version: MQTTProtocolVersion = MQTTProtocolVersion.MQTTv5) -> list[int]:
    """What clients are answered that connect now."""
    found = []
    for name in names:
        client = Client(here, name, version)
        found.append(client.answer)
        client.close()
    return found


def test_a_selection_is_out_at_once_and_over_a_restart_until_it_is_let_in_again(tmp_path: Path) -> None:
    with place(tmp_path) as here:
        log_in(here)
        clients = {name: Client(here, name) for name in ("a/1", "b", "c")}
        assert [client.answer for client in clients.values()] == [IN, IN, IN]
        until(lambda: here.ask("GET", "/api/v1/clients")[1]["matched"] == 3, "the clients are listed")
        body = {"ids": ["a/1", "b"], "reason": "maintenance", "seconds": 3600}
        assert here.ask("POST", "/api/v1/clients/block?expect=1", body)[0] == 409
        assert here.ask("POST", "/api/v1/clients/block?expect=2", body)[1] == {"changed": 2, "missing": []}
        assert [clients[name].ends.get(timeout=30) for name in ("a/1", "b")] == [0x98, 0x98]
        assert clients["c"].ends.empty()
        assert answers(here, "a/1", "b", "d") == [BANNED, BANNED, IN]
        assert answers(here, "a/1", "b", "d", version=MQTTProtocolVersion.MQTTv311) == [
            NOT_AUTHORIZED,
            NOT_AUTHORIZED,
            IN,
        ]
        for client in clients.values():
            client.close()
        here.broker.end()
        here.broker.start()
        until(lambda: len(here.console_pids()) == 2, "the console serves again")
        log_in(here)
        assert answers(here, "a/1", "b") == [BANNED, BANNED]
        listed = here.ask("GET", "/api/v1/blocks")[1]
        assert {(one["value"], one["reason"], one["by"]) for one in listed["items"]} == {
            ("a/1", "maintenance", "local"),
            ("b", "maintenance", "local"),
        }
        assert all(one["until_us"] - one["since_us"] <= 3_600_000_000 for one in listed["items"])
        assert here.ask("DELETE", "/api/v1/blocks/client/a%2F1", {})[0] == 200
        assert here.ask("DELETE", "/api/v1/blocks/client/a%2F1", {})[0] == 404
        assert answers(here, "a/1", "b") == [IN, BANNED]
        audit = here.ask("GET", "/api/v1/audit")[1]["items"]
        assert [(entry["what"], entry["target"]) for entry in audit] == [
            ("unblock", "client a/1"),
            ("unblock", "client a/1"),
            ("block clients", "2 clients"),
        ]
