"""Addresses of lakes, and the options of the stores behind them.

    /srv/lake, file:///srv/lake                              a folder, which all of Spark's machines see
    s3://BUCKET/PATH                                         Amazon S3, and what speaks its protocol
    abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH      Azure
    gs://BUCKET/PATH                                         Google Cloud Storage
    hdfs://HOST:PORT/PATH                                    Hadoop
    iceberg://CATALOG/NAMESPACE.TABLE                        an Iceberg table: its catalog says where it lies

Options come from the variables of the environment that the stores' own tools use, and from a settings file, which
wins: TOML, a table for each kind of store, named by HOLDFAST_LAKE_SETTINGS or by the caller.

    [s3]
    endpoint = "https://storage.example.org"
    access_key_id = "…"
    secret_access_key = "…"

A catalog of Iceberg has its own table, with the options that pyiceberg has for it; without one, pyiceberg's own
variables and file count (PYICEBERG_CATALOG__MAIN__URI, .pyiceberg.yaml).

    [iceberg.main]
    uri = "https://catalog.example.org"
    credential = "…"

1. An address has no credentials in it, and an error about an address shows none that somebody wrote there.
2. An option that does not exist is an error. No error shows the value of an option.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from holdfast.model.errors import SettingsError

SETTINGS: Final = "HOLDFAST_LAKE_SETTINGS"
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_FORMS: Final = {
    "s3": "s3://BUCKET/PATH",
    "abfss": "abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH",
    "gs": "gs://BUCKET/PATH",
    "hdfs": "hdfs://HOST:PORT/PATH",
    "iceberg": "iceberg://CATALOG/NAMESPACE.TABLE",
}
_PLACES: Final = {
    "s3": re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}"),
    "abfss": re.compile(r"[a-z0-9$][a-z0-9-]{2,62}@[a-z0-9]{3,24}(\.[a-z0-9-]+)+"),
    "gs": re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,221}"),
    "hdfs": re.compile(r"[A-Za-z0-9._-]+(:\d{1,5})?"),
    "iceberg": re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}"),
}
#: At least one namespace, and the table.
_TABLE: Final = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+")


class _Option(NamedTuple):
    #: As `deltalake` calls it.
    key: str
    #: Of the environment; the first that is set counts.
    variables: tuple[str, ...] = ()
    is_secret: bool = False


def _named(key: str, *more: str, is_secret: bool = False) -> _Option:
    """An option whose key is a variable, too."""
    return _Option(key, (key, *more), is_secret)


#: By kind of store, under the names that a settings file has for them.
_OPTIONS: Final[dict[str, dict[str, _Option]]] = {
    "s3": {
        "access_key_id": _named("AWS_ACCESS_KEY_ID", is_secret=True),
        "secret_access_key": _named("AWS_SECRET_ACCESS_KEY", is_secret=True),
        "session_token": _named("AWS_SESSION_TOKEN", is_secret=True),
        "region": _named("AWS_REGION", "AWS_DEFAULT_REGION"),
        "endpoint": _named("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"),
        "allow_http": _named("AWS_ALLOW_HTTP"),
        "virtual_hosted_style": _named("AWS_VIRTUAL_HOSTED_STYLE_REQUEST"),
        "locking_provider": _named("AWS_S3_LOCKING_PROVIDER"),
        "locking_table": _named("DELTA_DYNAMO_TABLE_NAME"),
        "locking_endpoint": _named("AWS_ENDPOINT_URL_DYNAMODB"),
    },
    "abfss": {
        "account_key": _named("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_KEY", is_secret=True),
        "sas_token": _named("AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY", is_secret=True),
        "client_id": _named("AZURE_CLIENT_ID", "AZURE_STORAGE_CLIENT_ID", is_secret=True),
        "client_secret": _named("AZURE_CLIENT_SECRET", "AZURE_STORAGE_CLIENT_SECRET", is_secret=True),
        "tenant_id": _named("AZURE_TENANT_ID", "AZURE_STORAGE_TENANT_ID"),
        "endpoint": _named("AZURE_ENDPOINT"),
        "allow_http": _Option("allow_http", ("AZURE_ALLOW_HTTP",)),
    },
    "gs": {
        "service_account": _named("GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_PATH"),
        "service_account_key": _named("GOOGLE_SERVICE_ACCOUNT_KEY", is_secret=True),
        "application_credentials": _named("GOOGLE_APPLICATION_CREDENTIALS"),
    },
    "hdfs": {},
}
#: Of a catalog of Iceberg; names with a dot are those of pyiceberg, such as "s3.region", and are passed on.
_OF_CATALOGS: Final = ("type", "uri", "warehouse", "credential", "token", "scope", "oauth2-server-uri", "prefix")
_SECRET: Final = re.compile(r"credential|token|secret|password|access-key|account-key|sas|connection-string")
#: Of every store that is asked by HTTP.
_OF_REQUESTS: Final = {name: _Option(name) for name in ("timeout", "connect_timeout", "max_retries", "retry_timeout")}
#: What to set when a store wants to know who asks.
CREDENTIALS: Final = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "abfss": "AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN, or AZURE_CLIENT_ID with its secret and tenant",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "hdfs": "HADOOP_CONF_DIR and HADOOP_USER_NAME",
    "iceberg": "PYICEBERG_CATALOG__NAME__CREDENTIAL or PYICEBERG_CATALOG__NAME__TOKEN",
}


class StoreAddress(NamedTuple):
    """Where a lake lies: in a folder, or in a store."""

    #: As it is shown, and given to `deltalake`.
    text: str
    #: Empty for a folder.
    kind: str = ""
    #: The bucket, the container and its account, or the host.
    place: str = ""


class StoreOptions(NamedTuple):
    #: As `deltalake` takes them.
    values: dict[str, str]
    #: Those of the values that are shown nowhere.
    secrets: tuple[str, ...]


def parse_address(text: str) -> StoreAddress:
    """SettingsError if it is neither a folder nor an address of a store."""
    found = _SCHEME.match(text)
    if found is None:
        if not text:
            raise SettingsError(f"a lake without an address: {_describe_forms()}")
        return StoreAddress(str(Path(text).absolute()))
    kind = found[1].lower()
    try:
        parts = urlsplit(text)
    except ValueError:
        raise SettingsError(f"the lake has an address that cannot be read; {_describe_forms()}") from None
    if kind == "file":
        if parts.netloc or not parts.path.startswith("/"):
            raise SettingsError(f"the lake {text}: write a folder as file:///PATH, or as its path alone")
        return StoreAddress(unquote(parts.path).rstrip("/") or "/")
    kind = {"s3a": "s3", "gcs": "gs"}.get(kind, kind)
    if kind not in _FORMS:
        raise SettingsError(f"the lake begins with {found[1]}://, which is no store known here; {_describe_forms()}")
    _check_credentials(kind, parts)
    path = "/".join(part for part in parts.path.split("/") if part)
    if not text[found.end() - 1 :].startswith("//") or not _PLACES[kind].fullmatch(parts.netloc):
        raise SettingsError(f"the lake {kind}://{parts.netloc}/{path}: write {_FORMS[kind]}")
    if ".." in path.split("/") or (kind == "hdfs" and not path):
        raise SettingsError(f"the lake {kind}://{parts.netloc}/{path}: write {_FORMS[kind]}, with a path without '..'")
    if kind == "iceberg" and not _TABLE.fullmatch(path):
        raise SettingsError(f"the lake {kind}://{parts.netloc}/{path}: write {_FORMS[kind]}")
    return StoreAddress(f"{kind}://{parts.netloc}" + (f"/{path}" if path else ""), kind, parts.netloc)


def is_iceberg(where: object) -> bool:
    """Whether it is the address of a table in a catalog of Iceberg."""
    return isinstance(where, str) and where[:8].lower() == "iceberg:"


def _check_credentials(kind: str, parts: SplitResult) -> None:
    user, at, _host = parts.netloc.rpartition("@")
    if parts.query or parts.fragment or (at and (kind != "abfss" or ":" in user or "@" in user)):
        raise SettingsError(
            f"the lake has more in its address than {_FORMS[kind]}; credentials belong into the environment, as "
            f"{CREDENTIALS[kind]}, or into a settings file that {SETTINGS} names"
        )


def _describe_forms() -> str:
    forms = list(_FORMS.values())
    return f"give a folder, {', '.join(forms[:-1])} or {forms[-1]}"


def read_options(kind: str, file: Path | None = None, environment: Mapping[str, str] = os.environ) -> StoreOptions:
    """The options for a kind of store; `file` instead of the one that the environment names."""
    known = _OPTIONS[kind] | ({} if kind == "hdfs" else _OF_REQUESTS)
    values: dict[str, str] = {}
    for option in known.values():
        given = [environment[name] for name in option.variables if environment.get(name)]
        if given:
            values[option.key] = given[0]
    if file is None and environment.get(SETTINGS):
        file = Path(environment[SETTINGS])
    if file is not None:
        values |= _values_of(file, kind, _read_file(file).get(kind, {}), known)
    if kind == "s3" and "AWS_S3_LOCKING_PROVIDER" not in values:
        values["AWS_CONDITIONAL_PUT"] = "etag"
    # A plain connection is for those who ask for it by the endpoint.
    if values.get("AWS_ENDPOINT_URL", "").startswith("http://"):
        values.setdefault("AWS_ALLOW_HTTP", "true")
    if "AWS_ENDPOINT_URL" in values:
        # The store has no regions, and the protocol wants one.
        values.setdefault("AWS_REGION", "us-east-1")
    secret_keys = {option.key for option in known.values() if option.is_secret}
    return StoreOptions(values, tuple(values[key] for key in sorted(secret_keys & values.keys())))


def read_catalog(name: str, environment: Mapping[str, str] = os.environ) -> StoreOptions:
    """The options of a catalog of Iceberg that stand in the settings file."""
    values: dict[str, str] = {}
    if environment.get(SETTINGS):
        file = Path(environment[SETTINGS])
        catalogs = _read_file(file).get("iceberg", {})
        given = catalogs.get(name, {})
        if not all(isinstance(one, dict) for one in catalogs.values()):
            raise SettingsError(f"{file}: [iceberg]: write a table for each catalog, [iceberg.{name}]")
        plain = {key: value for key, value in given.items() if "." not in key}
        values = _values_of(file, f"iceberg.{name}", plain, {key: _Option(key) for key in _OF_CATALOGS})
        values |= {key: str(value) for key, value in given.items() if "." in key}
    return StoreOptions(values, secrets_of(values))


def secrets_of(values: Mapping[str, str]) -> tuple[str, ...]:
    """Those of a catalog's options that are shown nowhere: credentials, and an address with a password in it."""
    found = {value for key, value in values.items() if _SECRET.search(key) and value}
    with suppress(ValueError):
        password = urlsplit(values.get("uri", "")).password
        if password:
            found |= {values["uri"], password, unquote(password)}
    # What is exchanged for a token is an id and a secret.
    found |= {part for part in values.get("credential", "").split(":") if part}
    return tuple(sorted(found))


def _read_file(file: Path) -> dict[str, dict[str, Any]]:
    try:
        if file.stat().st_mode & 0o077:
            raise SettingsError(f"{file} may be read by others, and holds credentials; run: chmod 600 {file}")
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"the settings file of the lake, {file}: {error.strerror or 'it cannot be read'}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        # Its text could quote the file.
        line = re.search(r"line \d+", str(error))
        raise SettingsError(
            f"the settings file of the lake, {file}: no TOML{f' in {line[0]}' if line else ''}"
        ) from None
    for table, given in content.items():
        if table not in (*_OPTIONS, "iceberg") or not isinstance(given, dict):
            tables = f"{', '.join(f'[{name}]' for name in _OPTIONS)}, [iceberg.CATALOG]"
            raise SettingsError(f"{file}: {table}: there are the tables {tables}")
    return content


def _values_of(file: Path, kind: str, given: Mapping[str, Any], known: Mapping[str, _Option]) -> dict[str, str]:
    values: dict[str, str] = {}
    for name, value in given.items():
        if name not in known:
            raise SettingsError(f"{file}: [{kind}] has no option {name}; it has {', '.join(known) or 'none'}")
        if not isinstance(value, str | int | bool):
            raise SettingsError(f"{file}: [{kind}] {name}: give a text, a number, true or false")
        values[known[name].key] = str(value).lower() if isinstance(value, bool) else str(value)
    return values
