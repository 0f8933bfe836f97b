"""`holdfast pub` and `holdfast sub` over every transport, against a broker with a listener for each."""

from pathlib import Path

import pytest
import trustme
import typer
from typer.testing import CliRunner, Result

from holdfast.cli.pub import pub
from holdfast.cli.sub import sub
from tests.mqtt.broker_process import RunningBroker
from tests.mqtt.conftest import StartBroker
from tests.unit.server.certificates import Authority

verbs = typer.Typer()
verbs.command()(pub)
verbs.command()(sub)

SCHEMES = {"tcp": "mqtt", "tls": "mqtts", "ws": "ws", "wss": "wss"}
VERSIONS = [pytest.param("3", id="v3"), pytest.param("5", id="v5")]


class Pems:
    """An authority of its own, and files that it signs."""

    def __init__(self, folder: Path) -> None:
        self._ca = trustme.CA()
        self._folder = folder
        self.file = folder / "ca.pem"
        self._ca.cert_pem.write_to_path(str(self.file))

    def pair(self, identity: str, common_name: str) -> tuple[Path, Path]:
        """Certificate and key."""
        issued = self._ca.issue_cert(identity, common_name=common_name)
        certificate, key = self._folder / f"{common_name}.pem", self._folder / f"{common_name}.key"
        issued.cert_chain_pems[0].write_to_path(str(certificate))
        issued.private_key_pem.write_to_path(str(key))
        return certificate, key

    def listener(self, host: str) -> str:
        """Settings of a listener whose certificate is for `host`."""
        certificate, key = self.pair(host, "server")
        return f'[listeners.tls]\nkind = "tls"\nport = 0\ncertificate = "{certificate}"\nkey = "{key}"\n'


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(verbs, arguments)


def url(broker: RunningBroker, kind: str, host: str = "localhost", path: str = "") -> str:
    return f"{SCHEMES[kind]}://{host}:{broker.ports[kind]}{path}"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["tcp", "tls", "ws", "wss"])
def test_a_message_goes_in_and_out_over_every_transport(
    broker: RunningBroker, authority: Authority, kind: str, version: str
) -> None:
    trust = ("--ca", str(authority.file)) if kind in ("tls", "wss") else ()
    common = ("--url", url(broker, kind), "-V", version, "-q", "2", *trust)
    topic = f"transports/{kind}/{version}"
    done = invoke("pub", topic, "-m", "grüße", "--retain", *common)
    assert (done.exit_code, done.output) == (0, "")
    done = invoke("sub", topic, "--count", "1", *common)
    assert (done.exit_code, done.stdout) == (0, f"{topic} grüße\n")


@pytest.mark.parametrize("kind", ["tls", "wss"])
def test_a_large_message_passes_in_both_directions(
    broker: RunningBroker, authority: Authority, kind: str, tmp_path: Path
) -> None:
    file = tmp_path / "payload"
    file.write_bytes(b"x" * 1_000_000)
    common = ("--url", url(broker, kind), "--ca", str(authority.file), "-q", "1")
    assert invoke("pub", "transports/large", "--file", str(file), "--retain", *common).exit_code == 0
    done = invoke("sub", "transports/large", "--count", "1", *common)
    assert done.stdout_bytes == b"transports/large " + file.read_bytes() + b"\n"


def test_options_of_tls_mean_tls_without_a_url(broker: RunningBroker, authority: Authority) -> None:
    where = ("-h", "localhost", "-p", str(broker.ports["tls"]), "-q", "1")
    assert invoke("pub", "a", "-m", "x", *where, "--cafile", str(authority.file)).exit_code == 0
    assert invoke("pub", "a", "-m", "x", *where, "--insecure").exit_code == 0


@pytest.mark.parametrize("kind", ["tls", "wss"])
def test_a_broker_that_cannot_be_trusted_is_not_spoken_to(broker: RunningBroker, kind: str) -> None:
    done = invoke("pub", "a", "-m", "x", "--url", url(broker, kind))
    assert done.exit_code == 1
    assert f"the certificate of localhost:{broker.ports[kind]} is not accepted" in done.stderr
    assert "name the authority that signed it with --ca FILE" in done.stderr
    assert invoke("pub", "a", "-m", "x", "--url", url(broker, kind), "--insecure").exit_code == 0


def test_a_certificate_for_another_host_is_named_as_that(start_broker: StartBroker, tmp_path: Path) -> None:
    ca = Pems(tmp_path)
    broker = start_broker(ca.listener("elsewhere.example"))
    where = ("--url", url(broker, "tls"), "--ca", str(ca.file))
    done = invoke("pub", "a", "-m", "x", *where)
    assert done.exit_code == 1
    assert "connect by a name that stands in it" in done.stderr
    assert invoke("pub", "a", "-m", "x", *where, "--insecure").exit_code == 0


def test_tls_to_a_plain_port_and_plain_to_a_tls_port_are_told_apart(
    broker: RunningBroker, authority: Authority
) -> None:
    plain, secure = str(broker.ports["tcp"]), str(broker.ports["tls"])
    done = invoke("pub", "a", "-m", "x", "-h", "localhost", "-p", plain, "--ca", str(authority.file))
    assert done.exit_code == 1
    assert "is a broker running there?" in done.stderr or "is it a port for TLS?" in done.stderr
    done = invoke("pub", "a", "-m", "x", "-h", "localhost", "-p", secure)
    assert done.exit_code == 1
    assert "or speaks TLS: --tls" in done.stderr


def test_a_wrong_path_and_a_port_without_websocket_are_told_apart(broker: RunningBroker) -> None:
    done = invoke("pub", "a", "-m", "x", "--url", url(broker, "ws", path="/elsewhere"))
    assert done.exit_code == 1
    assert "answers with HTTP status 404; is the path right?" in done.stderr
    done = invoke("pub", "a", "-m", "x", "--url", f"ws://localhost:{broker.ports['tcp']}")
    assert done.exit_code == 1
    assert "is it the right port?" in done.stderr


def test_a_client_certificate_is_the_user_and_without_one_the_way_is_shown(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    ca = Pems(tmp_path)
    rules = tmp_path / "rules"
    rules.write_text("user alice\ntopic write open\n")
    mutual = f'client_ca = "{ca.file}"\nrequire_client_certificate = true\n'
    broker = start_broker(f'{ca.listener("localhost")}{mutual}[security]\nacl_file = "{rules}"\n')
    where = ("--url", url(broker, "tls"), "--ca", str(ca.file))
    certificate, key = ca.pair("alice@example.org", "alice")
    own = ("--cert", str(certificate), "--key", str(key))
    assert invoke("pub", "open", "-m", "x", "-q", "1", *where, *own).exit_code == 0
    assert "Not authorized" in invoke("pub", "closed", "-m", "x", "-q", "1", *where, *own).stderr
    done = invoke("pub", "open", "-m", "x", *where)
    assert done.exit_code == 1
    assert "--cert FILE and --key FILE" in done.stderr
