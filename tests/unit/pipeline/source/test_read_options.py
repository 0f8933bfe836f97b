"""Options are checked at once, and an error names the one that is wrong and what would be right."""

import pickle
from pathlib import Path
from typing import Any

import pytest

from holdfast.model.errors import SettingsError
from holdfast.pipeline.source.history_frame import history
from holdfast.pipeline.source.read_options import ReadOptions, parse_read_options
from holdfast.pipeline.source.schema import DEFAULT_COLUMNS

CERTIFICATE = b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


def test_a_wrong_option_of_a_call_is_a_sentence_before_spark_is_asked() -> None:
    """What Spark's own error wraps in a trace."""
    no_spark: Any = None
    with pytest.raises(SettingsError, match=r"^option topicFilter: .*'#' must be the whole last level"):
        history(no_spark, "a/#/b", path="/data")
    with pytest.raises(SettingsError, match=r"^option columns: "):
        history(no_spark, path="/data", columns=["colour"])


def test_a_path_is_enough() -> None:
    assert parse_read_options({"path": "/data"}) == ReadOptions(path="/data")


def test_names_are_taken_in_any_case_and_values_are_parsed() -> None:
    found = parse_read_options(
        {
            "PATH": "file:///data",
            "topicfilter": "a/+/#",
            "startingTime": "2026-07-01T00:00:00Z",
            "endingtime": "-2h",
            "columns": "topic, ts",
            "zone": "press",
            "payload_format": "json",
            "maxRowsPerTrigger": "10",
            "rowsPerPartition": "20",
            "failOnDataLoss": "FALSE",
            "pushdown": "true",
            "__hidden": "of Spark",
            "spark.some": "of Spark",
        }
    )

    assert found == ReadOptions(
        path="/data",
        levels=(b"a", b"+", b"#"),
        starting_time="2026-07-01T00:00:00Z",
        ending_time="-2h",
        columns=("topic", "ts", "json"),
        zone="press",
        max_rows_per_trigger=10,
        rows_per_partition=20,
        fail_on_data_loss=False,
        pushdown=True,
    )
    assert pickle.loads(pickle.dumps(found)) == found
    assert found.since_us(0) == 1_782_864_000_000_000
    assert found.until_us(7_200_000_001) == 1


def test_without_columns_raw_ones_stay_away() -> None:
    assert parse_read_options({"path": "/data", "payloadFormat": "binary"}).columns == DEFAULT_COLUMNS
    assert {"received_at", "properties", "json"}.isdisjoint(DEFAULT_COLUMNS)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "either the option path"),
        ({"path": "/data", "endpoint": "grpc://host:1"}, "either the option path"),
        ({"path": "s3://bucket/data"}, "option path: 's3://bucket/data' is not a folder"),
        (
            {"path": "/data", "topicfliter": "a"},
            "no option 'topicfliter'; there are path, endpoint, table, topicFilter",
        ),
        ({"path": "/data", "topicFilter": "a/#/b"}, "option topicFilter: .*a/#/b"),
        ({"path": "/data", "topicFilter": ""}, "option topicFilter: the topic filter is empty"),
        ({"path": "/data", "topicFilter": "$share/g/a"}, r"option topicFilter: '\$share/g/a' has a group"),
        ({"path": "/data", "startingTime": "yesterday"}, "option startingTime: 'yesterday' is no time; give ISO 8601"),
        ({"path": "/data", "endingTime": "2026-13-01"}, "option endingTime: '2026-13-01' is no time"),
        ({"path": "/data", "startingOffsets": "newest"}, "option startingOffsets: 'newest' is none of: earliest"),
        ({"path": "/data", "startingOffsets": '{"a": [1, 2]}'}, "option startingOffsets: 'a': .* is not an offset"),
        ({"path": "/data", "startingOffsets": "latest", "startingTime": "1"}, "either the option startingTime or"),
        ({"path": "/data", "columns": "topic,colour"}, "option columns: there is no column 'colour'; there are ts, "),
        ({"path": "/data", "columns": "topic,topic"}, "option columns: column 'topic' comes twice"),
        ({"path": "/data", "columns": ""}, "option columns: there is no column ''"),
        ({"path": "/data", "table": "histories"}, "option table: there is no table 'histories'"),
        (
            {"path": "/data", "table": "sessions", "columns": "client"},
            "option columns: there is no column 'client' in sessions; there are client_id, ",
        ),
        (
            {"path": "/data", "table": "sessions", "topicFilter": "a"},
            "option topicFilter: it means nothing for the table sessions, which knows path, endpoint,",
        ),
        ({"path": "/data", "table": "queues", "owed": "all"}, "option owed: 'all' is not known; give estimate or"),
        ({"path": "/data", "owed": "exact"}, "option owed: it is for the table queues"),
        ({"path": "/data", "payloadFormat": "xml"}, "option payloadFormat: 'xml' is not known"),
        ({"path": "/data", "maxRowsPerTrigger": "0"}, "option maxRowsPerTrigger: '0' is not a number of messages"),
        ({"path": "/data", "rowsPerPartition": "-5"}, "option rowsPerPartition: '-5' is not a number"),
        ({"path": "/data", "lease": "../lake"}, "option lease: '../lake' is no name for a lease"),
        ({"path": "/data", "token": "secret"}, "option token: it goes with the option endpoint"),
        ({"endpoint": "grpc://h:1", "token": "a", "tokenFile": "b"}, "either the option token or tokenFile"),
        ({"endpoint": "grpc://h:1", "token": "two words"}, "option token: this is no token"),
        ({"endpoint": "grpc://h:1", "tokenFile": "/nowhere"}, "option tokenFile: /nowhere cannot be read: No such"),
        ({"endpoint": "grpc://h:1", "ca": "/nowhere"}, "option ca: /nowhere cannot be read: No such file"),
        ({"path": "/data", "failOnDataLoss": "no"}, "option failOnDataLoss: 'no' is neither true nor false"),
    ],
)
def test_a_wrong_option_is_named(given: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        parse_read_options(given)


def test_each_table_has_its_own_columns_and_options() -> None:
    queues = parse_read_options({"path": "/data", "table": "queues", "owed": "exact", "columns": "client_id, owed"})
    retained = parse_read_options({"path": "/data", "table": "retained", "topicFilter": "a/+"})

    assert (queues.table, queues.exact, queues.columns) == ("queues", True, ("client_id", "owed"))
    assert (retained.levels, retained.columns[0], retained.exact) == ((b"a", b"+"), "topic", False)


def test_a_token_comes_from_a_file_and_is_never_shown(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hft_secret\n", encoding="utf-8")
    (tmp_path / "ca.pem").write_bytes(CERTIFICATE)

    by_file = parse_read_options(
        {"endpoint": "grpc+tls://h:1", "tokenFile": str(tmp_path / "token"), "ca": str(tmp_path / "ca.pem")}
    )
    by_text = parse_read_options({"endpoint": "grpc+tls://h:1", "token": "hft_secret"})

    assert (by_file.token, by_file.ca) == ("hft_secret", CERTIFICATE)
    assert by_text.token == "hft_secret"
    assert "hft_secret" not in f"{by_file}{by_text!r}"


@pytest.mark.parametrize(
    "content",
    [
        CERTIFICATE,
        b"# Authority of the plant in N\xfcrnberg\n" + CERTIFICATE,
        b"Bag Attributes\n    friendlyName: plant\nsubject=CN=plant\n"
        + CERTIFICATE
        + b"\nBag Attributes\n"
        + CERTIFICATE,
        CERTIFICATE.replace(b"\n", b"\r\n"),
        b"-----BEGIN PRIVATE KEY-----\nMC4CAQ==\n-----END PRIVATE KEY-----\n" + CERTIFICATE,
    ],
    ids=["alone", "behind a comment", "with attributes", "lines of Windows", "behind a key"],
)
def test_authorities_are_the_same_as_a_file_and_as_its_text(tmp_path: Path, content: bytes) -> None:
    """`history` sends the text to a server of Spark Connect: certificates, and nothing else of the file."""
    (tmp_path / "ca.pem").write_bytes(content)
    by_file = parse_read_options({"endpoint": "grpcs://h:1", "ca": str(tmp_path / "ca.pem")}).ca
    assert by_file is not None
    assert by_file.count(b"-----BEGIN CERTIFICATE-----") == content.count(b"-----BEGIN CERTIFICATE-----")
    assert b"PRIVATE" not in by_file
    assert parse_read_options({"endpoint": "grpcs://h:1", "ca": by_file.decode()}).ca == by_file
    if content.isascii():
        assert parse_read_options({"endpoint": "grpcs://h:1", "ca": content.decode()}).ca == by_file


def test_authorities_that_are_no_certificates_are_refused(tmp_path: Path) -> None:
    (tmp_path / "ca.der").write_bytes(b"\x30\x82\x01\x0a")
    with pytest.raises(SettingsError, match=r"option ca: .*ca\.der holds no certificate in PEM") as caught:
        parse_read_options({"endpoint": "grpcs://h:1", "ca": str(tmp_path / "ca.der")})
    assert "openssl x509 -inform der" in str(caught.value)
    with pytest.raises(SettingsError, match="option ca: the text holds no certificate in PEM"):
        parse_read_options({"endpoint": "grpcs://h:1", "ca": "-----BEGIN PRIVATE KEY-----\nsecret"})


@pytest.mark.parametrize("token", ["two words", "", "naïve"])
def test_a_token_that_is_wrong_is_not_shown_either(token: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_read_options({"endpoint": "grpc://h:1", "token": token})

    assert str(caught.value) == "option token: this is no token; `holdfast token add` makes one"
