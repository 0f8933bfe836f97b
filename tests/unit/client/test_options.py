"""Addresses, passwords and TLS files: what they give, and how an error names what is wrong."""

import ssl
from pathlib import Path

import pytest
import trustme

from holdfast.client.options import ConnectionOptions, OptionNames, read_password, tls_context

NAMES = OptionNames(ca="--ca", cert="--cert", password_env="--env", password_file="--file")


def test_an_address_gives_host_port_path_tls_and_user() -> None:
    plain = ConnectionOptions.from_url("mqtt://127.0.0.1", client_id="c", keep_alive_s=5)
    assert (plain.place, plain.path, plain.tls, plain.client_id, plain.keep_alive_s) == (
        "127.0.0.1:1883",
        None,
        None,
        "c",
        5,
    )
    secure = ConnectionOptions.from_url("wss://ann@host/x", user_name="eve")
    assert (secure.place, secure.path, secure.user_name) == ("host:443", "/x", "eve")
    assert secure.tls is not None
    assert secure.tls.verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    ("url", "text"),
    [("host", "write mqtt://HOST"), ("mqtt://u:secret@h", "use password"), ("mqtt://h:0", "from 1 to 65535")],
)
def test_a_wrong_address_is_refused(url: str, text: str) -> None:
    with pytest.raises(ValueError, match=text) as caught:
        ConnectionOptions.from_url(url)
    assert "secret" not in str(caught.value)


def test_a_password_comes_from_a_variable_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQTT_PASSWORD", "of the variable")
    (tmp_path / "password").write_bytes(b"of the file\r\n")
    assert read_password("MQTT_PASSWORD", None, NAMES) == b"of the variable"
    assert read_password(None, tmp_path / "password", NAMES) == b"of the file"
    assert read_password(None, None, NAMES) is None
    with pytest.raises(ValueError, match=r"^--env NOT_SET: there is no such variable"):
        read_password("NOT_SET", None, NAMES)
    with pytest.raises(ValueError, match=r"^--file /nowhere: No such file"):
        read_password(None, "/nowhere", NAMES)


def test_a_wrong_tls_file_is_named(tmp_path: Path) -> None:
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    (tmp_path / "empty").touch()
    assert tls_context(tmp_path / "ca.pem").check_hostname
    assert not tls_context(insecure=True).check_hostname
    with pytest.raises(ValueError, match=r"^--ca /nowhere: No such file"):
        tls_context("/nowhere", names=NAMES)
    with pytest.raises(ValueError, match=r"^--ca .*empty: holds no certificate in PEM form"):
        tls_context(tmp_path / "empty", names=NAMES)
    with pytest.raises(ValueError, match=r"^--cert .*empty: are no certificate and its key in PEM form"):
        tls_context(cert=tmp_path / "empty", names=NAMES)


def test_no_secret_is_printed() -> None:
    assert "hunter2" not in repr(ConnectionOptions(user_name="u", password=b"hunter2"))
