"""Real broker processes for the tests of this folder."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.mqtt.broker_process import RunningBroker
from tests.unit.server.certificates import Authority

#: `start_broker(settings_toml, *arguments)`.
StartBroker = Callable[..., RunningBroker]

ONE_LISTENER = "[listeners.tcp]\nport = 0\n"


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Who signs the certificates of brokers, and of clients."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def four_listeners(authority: Authority) -> str:
    """Settings of one listener for each transport, named after it."""
    files = authority.server_files("broker")
    pair = f'certificate = "{files["certificate"]}"\nkey = "{files["key"]}"\n'
    kinds = {"tcp": "", "tls": pair, "ws": "", "wss": pair}
    return "".join(f'[listeners.{kind}]\nkind = "{kind}"\nport = 0\n{more}' for kind, more in kinds.items())


@pytest.fixture
def start_broker(tmp_path: Path) -> Iterator[StartBroker]:
    """Starts a broker with these settings; the test's end stops it, and fails if it complained of anything."""
    with ExitStack() as running:

        def start(settings_toml: str = "", *arguments: str) -> RunningBroker:
            if "[listeners." not in settings_toml:
                settings_toml = ONE_LISTENER + settings_toml
            broker = RunningBroker(tmp_path, settings_toml, arguments)
            running.callback(broker.stop)
            return broker

        yield start


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, four_listeners: str) -> Iterator[RunningBroker]:
    """One broker for a whole module, with every transport and everything else by default."""
    running = RunningBroker(tmp_path_factory.mktemp("broker"), four_listeners)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def broker_port(broker: RunningBroker) -> int:
    """The port of its plain listener."""
    return broker.ports["tcp"]
