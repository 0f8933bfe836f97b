"""Options of a writer: what is wrong is named before anything is published, and no password is shown."""

import pytest

from holdfast.model.errors import SettingsError
from holdfast.pipeline.sink.write_options import is_writing, parse_write_options

BROKER = {"broker": "mqtt://127.0.0.1:1884"}


def test_a_broker_is_all_it_takes() -> None:
    options = parse_write_options({"Broker": "mqtts://alice@host"})
    assert (options.place, options.tls, options.user, options.qos) == ("host:8883", True, "alice", 1)
    assert is_writing({"BROKER": "x"})
    assert not is_writing({"path": "x"})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"broker": "host:1883"}, "option broker: write mqtt://host:port"),
        ({"broker": "ws://host"}, "option broker: write mqtt://host:port"),
        ({"broker": "mqtt://host:99999"}, "option broker: the port"),
        ({"broker": "mqtt://host/path"}, "option broker: nothing may follow the port"),
        ({"qos": "3"}, "option qos: '3' is no number from 0 to 2"),
        ({"retain": "yes"}, "option retain: 'yes' is neither"),
        ({"maxInflight": "0"}, "option maxInflight"),
        ({"passwordEnv": "A", "passwordFile": "b", "user": "u"}, "either the option passwordEnv or passwordFile"),
        ({"passwordEnv": "A"}, "give the option user"),
        ({"caFile": "ca.pem"}, "write mqtts://"),
        ({"broker": "mqtts://h", "keyFile": "k"}, "give certFile"),
        ({"orderBy": "ts,,x"}, "option orderBy"),
        ({"topicFilter": "a/#"}, "a writer has no option 'topicFilter'"),
    ],
)
def test_a_wrong_option_is_named(given: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        parse_write_options({**BROKER, **given})


@pytest.mark.parametrize("given", [{"password": "s3cret"}, {"broker": "mqtt://u:s3cret@host"}])
def test_a_password_is_refused_and_not_repeated(given: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match="passwordEnv or passwordFile") as caught:
        parse_write_options({**BROKER, **given})
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "ledger"),
    [
        ({}, None),
        ({"checkpointLocation": "/c"}, "/c/holdfast-ledger"),
        ({"checkpointlocation": "file:///c"}, "/c/holdfast-ledger"),
        ({"checkpointlocation": "hdfs://host/c"}, None),
        ({"checkpointlocation": "/c", "ledger": "none"}, None),
        ({"checkpointlocation": "hdfs://host/c", "ledger": "/shared"}, "/shared"),
    ],
)
def test_a_ledger_lies_in_the_checkpoint_where_that_is_a_folder(given: dict[str, str], ledger: str | None) -> None:
    assert parse_write_options({**BROKER, **given}).ledger == ledger
