"""What is wrong with an endpoint is said when a table is named, with the option; and a server may come and go."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.files.token_file import add_token
from holdfast.history.tokens import Tokens
from holdfast.model.errors import PermanentError, SettingsError
from holdfast.pipeline.source import history_source
from holdfast.pipeline.source.data_source import HoldfastSource
from tests.unit.pipeline.filled_log import Log
from tests.unit.pipeline.local_archive import archive
from tests.unit.pipeline.local_archive import guarded as behind_tls


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[tuple[Log, str]]:
    """A log that wants a token, and one that is right."""
    token = add_token(tmp_path / "tokens", "spark")
    log = Log(tmp_path, tokens=Tokens(tmp_path / "tokens"))
    yield log, token
    log.close()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_source, "CHECK_PATIENCE_S", 0.0)


def refusal(options: dict[str, str]) -> str:
    with pytest.raises(SettingsError) as caught:
        HoldfastSource(options)
    return str(caught.value)


def test_the_right_token_opens(guarded: tuple[Log, str], tmp_path: Path) -> None:
    log, token = guarded
    (tmp_path / "token").write_text(token, encoding="utf-8")

    for given in ({"token": token}, {"tokenFile": str(tmp_path / "token")}):
        assert "topic" in HoldfastSource({**log.where, **given}).schema().fieldNames()


def test_a_wrong_token_is_named_and_not_shown(guarded: tuple[Log, str]) -> None:
    log, token = guarded
    wrong = token[:-1] + "~"

    assert refusal({**log.where, "token": wrong}).startswith("option token: the token is not known; `holdfast token")
    assert wrong not in refusal({**log.where, "token": wrong})
    assert refusal(log.where).startswith("option token: a token is needed")


def test_an_endpoint_that_is_none_or_away_is_named(guarded: tuple[Log, str]) -> None:
    log, token = guarded

    assert refusal({"endpoint": "nowhere"}).startswith("option endpoint: 'nowhere' is no address of a history")
    assert refusal({"endpoint": "grpc://127.0.0.1:1"}).startswith("option endpoint: grpc://127.0.0.1:1 cannot be")
    assert refusal({**log.where, "token": token, "zone": "x"}) == "option zone: there is no zone 'x'; there are default"


def test_a_certificate_that_is_not_trusted_is_told_at_once(guarded: tuple[Log, str], tmp_path: Path) -> None:
    """Waiting would not help, and whoever waits for it takes the server for away."""
    log, _token = guarded
    with behind_tls(log.path, tmp_path) as where:
        ca = where.pop("ca")
        with pytest.raises(PermanentError, match="shows a certificate that is not trusted"):
            archive(where["endpoint"], tmp_path / "lake", tokenFile=where["tokenFile"])
        assert refusal(where).startswith(f"option ca: {where['endpoint']} shows a certificate that is not trusted")
        assert "topic" in HoldfastSource({**where, "ca": ca}).schema().fieldNames()


def test_a_lease_is_for_streams(guarded: tuple[Log, str]) -> None:
    log, token = guarded
    source = HoldfastSource({**log.where, "token": token, "lease": "lake"})

    with pytest.raises(SettingsError, match="option lease: only a stream"):
        source.reader(source.schema())
    assert source.streamReader(source.schema()) is not None
