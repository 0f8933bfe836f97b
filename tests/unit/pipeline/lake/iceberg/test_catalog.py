"""Catalogs are named by addresses, known from settings or the environment, and their credentials are shown nowhere."""

from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog, SqlCatalogBaseTable
from pyiceberg.typedef import Identifier

from holdfast.model.errors import HoldfastError, SettingsError
from holdfast.pipeline.lake.formats import open_archive, open_lake
from holdfast.pipeline.lake.iceberg.catalog import OpenCatalog
from holdfast.pipeline.lake.iceberg.iceberg_lake import IcebergLake
from holdfast.pipeline.lake.store_options import read_catalog, secrets_of
from tests.unit.pipeline.iceberg_tables import ADDRESS, catalog_options, catalog_variables


@pytest.fixture(autouse=True)
def nothing_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pyiceberg also looks for a file in the home and the working directory."""
    for name in ("URI", "WAREHOUSE", "TOKEN", "CREDENTIAL", "TYPE"):
        monkeypatch.delenv(f"PYICEBERG_CATALOG__MAIN__{name}", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> Path:
    file = tmp_path / "lakes.toml"
    file.write_text(text, encoding="utf-8")
    file.chmod(0o600)
    monkeypatch.setenv("HOLDFAST_LAKE_SETTINGS", str(file))
    return file


def test_a_settings_file_wins_over_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = catalog_options(tmp_path)
    monkeypatch.setenv("PYICEBERG_CATALOG__MAIN__URI", "http://127.0.0.1:1")
    rows = "\n".join(f'{name} = "{value}"' for name, value in options.items())
    settings(tmp_path, monkeypatch, f'[iceberg.main]\n{rows}\n"s3.region" = "eu-central-1"\n')

    opened = OpenCatalog.at(ADDRESS)

    assert opened.catalog.properties["uri"] == options["uri"]
    assert opened.catalog.properties["s3.region"] == "eu-central-1"
    assert (opened.name, opened.identifier) == ("main", ("plant", "messages"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '[iceberg.main]\nurl = "x"\n',
            r"\[iceberg\.main\] has no option url; it has type, uri, warehouse",
        ),
        ('[iceberg]\nuri = "x"\n', r"\[iceberg\]: write a table for each catalog, \[iceberg\.main\]"),
        ('[icebergs.main]\nuri = "x"\n', r"icebergs: there are the tables \[s3\].*\[iceberg\.CATALOG\]"),
        ("[iceberg.main]\nuri = []\n", r"\[iceberg\.main\] uri: give a text, a number, true or false"),
    ],
)
def test_a_wrong_settings_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str) -> None:
    settings(tmp_path, monkeypatch, text)

    with pytest.raises(SettingsError, match=said):
        read_catalog("main")


def test_a_settings_file_that_others_may_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings(tmp_path, monkeypatch, '[iceberg.main]\ntoken = "x"\n').chmod(0o644)

    with pytest.raises(SettingsError, match="chmod 600"):
        read_catalog("main")


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, r"the catalog main is not known: set PYICEBERG_CATALOG__MAIN__URI, or write uri into \[iceberg\.main\]"),
        ({"uri": "ftp://host/x"}, r"the catalog main has an address of no known type; give one that speaks REST"),
        ({"uri": "thrift://host:1"}, r"the catalog main has an address of no known type; give one that speaks REST"),
        ({"uri": "http://host", "type": "glue"}, "the catalog main is of type glue; give one that speaks REST"),
        ({"uri": "sqlite:////nowhere/at/all/catalog.db"}, r"main does not answer: .*unable to open database file"),
    ],
)
def test_a_catalog_that_cannot_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], said: str
) -> None:
    for name, value in catalog_variables(variables).items():
        monkeypatch.setenv(name, value)

    with pytest.raises(HoldfastError, match=said), open_archive(ADDRESS, "main"):
        pass


def test_a_file_of_pyiceberg_counts_and_one_that_is_wrong_is_named(tmp_path: Path) -> None:
    options = catalog_options(tmp_path)
    rows = "".join(f"    {name}: {value}\n" for name, value in options.items())
    (tmp_path / ".pyiceberg.yaml").write_text(f"catalog:\n  main:\n{rows}")
    assert OpenCatalog.at(ADDRESS).catalog.properties["uri"] == options["uri"]

    (tmp_path / ".pyiceberg.yaml").write_text("catalog: [a-secret\n")
    with pytest.raises(SettingsError, match=r"in \.pyiceberg\.yaml or as PYICEBERG_… variables, cannot") as raised:
        OpenCatalog.at(ADDRESS)
    assert "a-secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("warehouse", "said"),
    [
        ("", "does not say where tables lie: set PYICEBERG_CATALOG__MAIN__WAREHOUSE"),
        ("gs://bucket/path", r"lies at gs://bucket/path, and has to lie in a folder, or at s3://BUCKET/PATH"),
        ("ftp://host/path", "begins with ftp://, which is no store known here"),
    ],
)
def test_a_place_where_no_table_can_lie_is_named_before_one_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warehouse: str, said: str
) -> None:
    for name, value in catalog_variables(catalog_options(tmp_path) | {"warehouse": warehouse}).items():
        monkeypatch.setenv(name, value)

    with pytest.raises(SettingsError, match=said), open_archive(ADDRESS, "main"):
        pass
    assert OpenCatalog.at(ADDRESS).load() is None


def test_looking_for_a_lake_makes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in catalog_variables(catalog_options(tmp_path)).items():
        monkeypatch.setenv(name, value)

    with pytest.raises(SettingsError, match=r"is no lake: its catalog, .*catalog\.db, is not there"):
        open_lake(ADDRESS)
    assert list(tmp_path.iterdir()) == []
    with open_archive("iceberg://main/plant.others", "main"):
        pass
    with pytest.raises(SettingsError, match=r"iceberg://main/plant\.messages is no lake: no such table is there"):
        open_lake(ADDRESS)


def test_what_another_process_makes_in_a_catalog_at_the_same_time_is_taken_as_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own tables, and the namespace: both find nothing there, and one of them makes it."""
    for name, value in catalog_variables(catalog_options(tmp_path)).items():
        monkeypatch.setenv(name, value)
    make_tables, has_namespace = SqlCatalog.create_tables, SqlCatalog.namespace_exists
    met: list[str] = []

    def tables_made_meanwhile(catalog: SqlCatalog) -> None:
        met.append("tables")
        make_tables(catalog)
        SqlCatalogBaseTable.metadata.create_all(catalog.engine, checkfirst=False)

    def namespace_made_meanwhile(catalog: SqlCatalog, namespace: str | Identifier) -> bool:
        found = has_namespace(catalog, namespace)
        if not found and "namespace" not in met:
            met.append("namespace")
            catalog.create_namespace(namespace)
        return found

    monkeypatch.setattr(SqlCatalog, "create_tables", tables_made_meanwhile)
    monkeypatch.setattr(SqlCatalog, "namespace_exists", namespace_made_meanwhile)

    with open_archive(ADDRESS, "main") as lake:
        assert lake.table.list_files() == []
    assert met == ["tables", "namespace"]


def test_credentials_are_what_is_hidden() -> None:
    options = {
        "uri": "postgresql+psycopg2://holdfast:p%40ss@db/catalog",
        "credential": "an-id:a-secret",
        "token": "a-token",
        "s3.secret-access-key": "a-key",
        "warehouse": "s3://bucket",
    }
    hidden = secrets_of(options)

    assert {"p%40ss", "p@ss", "an-id", "a-secret", "an-id:a-secret", "a-token", "a-key"} <= set(hidden)
    assert "s3://bucket" not in hidden


def test_an_error_of_the_catalog_shows_no_credential(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__MAIN__URI", "http://127.0.0.1:1/p%2Bw-in-a-path")
    monkeypatch.setenv("PYICEBERG_CATALOG__MAIN__TOKEN", "p+w-in-a-path")

    with pytest.raises(HoldfastError, match="does not answer") as raised:
        OpenCatalog.at(ADDRESS)

    assert "w-in-a-path" not in str(raised.value)
    assert raised.value.__cause__ is None, "a cause is printed, too"


def test_a_lake_shows_no_credential(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in catalog_variables(catalog_options(tmp_path) | {"token": "never-shown"}).items():
        monkeypatch.setenv(name, value)
    with open_archive(ADDRESS, "main") as lake:
        assert isinstance(lake.table, IcebergLake)
        assert "never-shown" not in repr(lake.table.catalog) + repr(lake.table.store) + str(lake.table)
