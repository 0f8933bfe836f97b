"""Addresses of lakes and options of stores: what is wrong is said before anything is asked, without a credential."""

from pathlib import Path

import pytest

from holdfast.model.errors import SettingsError
from holdfast.pipeline.lake.store_options import SETTINGS, StoreAddress, parse_address, read_options

SECRET = "planted/Secret+of=the-lake"


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("/srv/lake", StoreAddress("/srv/lake")),
        ("file:///srv/the%20lake/", StoreAddress("/srv/the lake")),
        ("s3://lakes", StoreAddress("s3://lakes", "s3", "lakes")),
        ("s3a://lakes//a/b/", StoreAddress("s3://lakes/a/b", "s3", "lakes")),
        ("gs://lakes/a", StoreAddress("gs://lakes/a", "gs", "lakes")),
        ("hdfs://names:8020/a", StoreAddress("hdfs://names:8020/a", "hdfs", "names:8020")),
        (
            "abfss://lakes@plant.dfs.core.windows.net/a",
            StoreAddress("abfss://lakes@plant.dfs.core.windows.net/a", "abfss", "lakes@plant.dfs.core.windows.net"),
        ),
    ],
)
def test_an_address_names_a_folder_or_a_store(text: str, right: StoreAddress) -> None:
    assert parse_address(text) == right


def test_a_folder_is_found_from_wherever_it_was_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert parse_address("lake").text == str(tmp_path / "lake")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "without an address: give a folder, s3://"),
        ("ftp://host/lake", "begins with ftp://, which is no store known here; give a folder, s3://BUCKET/PATH"),
        ("s3:/lakes/a", "write s3://BUCKET/PATH"),
        ("s3://", "write s3://BUCKET/PATH"),
        ("s3://lakes/../other", "a path without"),
        ("abfss://lakes/a", "write abfss://CONTAINER@ACCOUNT"),
        ("hdfs://names:8020", "write hdfs://HOST:PORT/PATH"),
        ("file://host/lake", "write a folder as file:///PATH"),
        ("s3://[lakes/a", "cannot be read"),
    ],
)
def test_a_wrong_address_is_refused_with_a_right_one(text: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        parse_address(text)


@pytest.mark.parametrize(
    "text",
    [
        f"s3://key:{SECRET.replace('/', '')}@lakes/a",
        "gs://planted@lakes/a",
        "abfss://lakes:planted@plant.dfs.core.windows.net/a",
        "abfss://lakes@plant.dfs.core.windows.net/a?sig=planted",
        "s3://lakes/a?secret=planted",
        "s3://lakes/a#planted",
    ],
)
def test_credentials_in_an_address_are_refused_and_not_shown(text: str) -> None:
    with pytest.raises(SettingsError, match="credentials belong into the environment") as error:
        parse_address(text)
    assert "planted" not in str(error.value)


def settings(folder: Path, text: str, mode: int = 0o600) -> Path:
    file = folder / "lake.toml"
    file.write_text(text, encoding="utf-8")
    file.chmod(mode)
    return file


def test_the_settings_file_wins_over_the_environment(tmp_path: Path) -> None:
    file = settings(
        tmp_path,
        f'[s3]\nendpoint = "http://127.0.0.1:9000"\nsecret_access_key = "{SECRET}"\nmax_retries = 3\n'
        'virtual_hosted_style = false\n[gs]\nservice_account = "key.json"\n',
    )
    given = {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "other",
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AZURE_CLIENT_SECRET": "of another store",
    }

    for found in (read_options("s3", file, given), read_options("s3", None, given | {SETTINGS: str(file)})):
        assert found.values == {
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "eu-central-1",
            "AWS_ENDPOINT_URL": "http://127.0.0.1:9000",
            "AWS_ALLOW_HTTP": "true",
            "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false",
            "AWS_CONDITIONAL_PUT": "etag",
            "max_retries": "3",
        }
        assert set(found.secrets) == {"key", SECRET}


def test_a_locking_provider_takes_the_place_of_conditional_puts() -> None:
    found = read_options("s3", None, {"AWS_S3_LOCKING_PROVIDER": "dynamodb", "DELTA_DYNAMO_TABLE_NAME": "locks"})
    assert found.values == {"AWS_S3_LOCKING_PROVIDER": "dynamodb", "DELTA_DYNAMO_TABLE_NAME": "locks"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '[s3]\nsecret_acces_key = "planted"\n',
            r"\[s3\] has no option secret_acces_key; it has access_key_id",
        ),
        ('[s4]\nregion = "planted"\n', r"s4: there are the tables \[s3\]"),
        ("[s3]\nsecret_access_key = planted\n", "no TOML in line 2"),
        ('[s3]\nregion = ["planted"]\n', r"\[s3\] region: give a text"),
    ],
)
def test_a_wrong_settings_file_is_refused_without_a_word_of_its_values(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said) as error:
        read_options("s3", settings(tmp_path, text), {})
    assert "planted" not in str(error.value)


def test_a_settings_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="run: chmod 600"):
        read_options("s3", settings(tmp_path, "[s3]\n", 0o644), {})
    with pytest.raises(SettingsError, match="No such file"):
        read_options("s3", tmp_path / "none.toml", {})
