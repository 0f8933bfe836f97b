"""Catalogs of Iceberg: which table an address means, and errors that say what to set.

    iceberg://main/plant.messages     the table `messages` of the namespace `plant`, in the catalog `main`

1. Options come from the settings file of lakes, `[iceberg.main]`, else from where pyiceberg looks for them. Only the
   driver has them: Spark's workers are given files to write, and no catalog.
2. No text has a credential in it. An error names the catalog and what would be right.
3. A catalog that does not answer is waited for, and not for ever.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote, urlsplit
from weakref import finalize

from pyiceberg import exceptions
from pyiceberg.catalog import Catalog, CatalogType, infer_catalog_type
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import ForbiddenError, NoSuchTableError, OAuthError, UnauthorizedError
from pyiceberg.table import Table
from pyiceberg.utils.config import Config
from requests import RequestException, Session
from requests.adapters import HTTPAdapter
from requests.exceptions import HTTPError
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from strictyaml import YAMLError  # type: ignore[import-untyped]

from holdfast.model.errors import HoldfastError, SettingsError, TransientError
from holdfast.pipeline.lake.iceberg.metadata_files import METADATA_FILES
from holdfast.pipeline.lake.store import STORE_ERRORS
from holdfast.pipeline.lake.store_options import SETTINGS, parse_address, read_catalog, read_options, secrets_of

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog

#: What pyiceberg and what it uses raise. Its own errors have no family.
CATALOG_ERRORS: Final[tuple[type[Exception], ...]] = (
    *(kind for kind in vars(exceptions).values() if isinstance(kind, type) and issubclass(kind, Exception)),
    RequestException,
    SQLAlchemyError,
    *STORE_ERRORS,
    ValueError,
)
_ASKED: Final = (UnauthorizedError, ForbiddenError, OAuthError)
_SILENT: Final = (RequestException, DBAPIError, exceptions.ServiceUnavailableError, exceptions.ServerError)
_PATIENCE_S: Final = 60.0
_HIDDEN: Final = "***"
#: Tables of a catalog in SQL, for tables and for namespaces.
_OWN_TABLES: Final = 2


@dataclass(frozen=True)
class OpenCatalog:
    """A catalog, and the table of it that an address names."""

    #: As it is shown.
    address: str
    name: str
    identifier: tuple[str, ...]
    catalog: Catalog = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)

    @classmethod
    def at(cls, where: str) -> "OpenCatalog":
        """SettingsError if the catalog is not known, or if it refuses what it is shown. TransientError: no answer."""
        address = parse_address(where)
        name = address.place
        options = _options(name)
        secrets = (*secrets_of(_flat(options)), *read_options("s3").secrets)
        with _errors(address.text, name, secrets, TransientError, "cannot be opened"):
            catalog = _open(name, options)
        identifier = tuple(address.text.rpartition("/")[2].split("."))
        # A server may add some: a token that it gave.
        secrets += secrets_of(_flat(catalog.properties))
        return cls(address.text, name, identifier, catalog, secrets)

    def errors(self, family: type[HoldfastError], text: str) -> Any:
        """What pyiceberg raises in the block becomes an error of this family, or a SettingsError."""
        return _errors(self.address, self.name, self.secrets, family, text)

    def translate(self, error: Exception, family: type[HoldfastError], text: str) -> HoldfastError:
        return _translated(error, self.describe(error), self.address, self.name, family, text)

    def describe(self, error: BaseException) -> str:
        """An error in one line, without credentials."""
        return _describe(error, self.secrets)

    def load(self) -> Table | None:
        """None if there is no such table."""
        with self.errors(TransientError, "cannot be read"):
            try:
                return self.catalog.load_table(self.identifier)
            except (NoSuchTableError, exceptions.NoSuchNamespaceError):
                return None


def _options(name: str) -> dict[str, Any]:
    try:
        known = Config().get_catalog_config(name) or {}
    except (YAMLError, ValueError, OSError) as error:
        # Its text could quote the file.
        raise SettingsError(
            f"what pyiceberg finds of catalogs, in .pyiceberg.yaml or as PYICEBERG_… variables, cannot be read "
            f"({type(error).__name__}); set it right, or write [iceberg.{name}] into a file that {SETTINGS} names"
        ) from None
    options: dict[str, Any] = {**known, **read_catalog(name).values}
    if not options.get("uri"):
        raise SettingsError(
            f"the catalog {name} is not known: set PYICEBERG_CATALOG__{name.upper()}__URI, or write uri into "
            f"[iceberg.{name}] of a settings file that {SETTINGS} names"
        )
    return options | {"py-io-impl": METADATA_FILES}


def _flat(options: Mapping[str, Any], before: str = "") -> dict[str, str]:
    """With the options that are nested, such as those of how to log in."""
    found: dict[str, str] = {}
    for key, value in options.items():
        found |= _flat(value, f"{before}{key}.") if isinstance(value, Mapping) else {f"{before}{key}": str(value)}
    return found


def _open(name: str, options: dict[str, Any]) -> Catalog:
    try:
        kind = CatalogType(str(options["type"]).lower()) if "type" in options else infer_catalog_type(name, options)
    except ValueError:
        kind = None
    if kind is CatalogType.REST:
        return _PatientRestCatalog(name, **options)
    if kind is CatalogType.SQL:
        catalog = _open_sql(name, options)
        # A lake is not closed: connections go with it.
        finalize(catalog, catalog.engine.dispose)
        return catalog
    said = f"is of type {options['type']}" if "type" in options else "has an address of no known type"
    raise SettingsError(
        f"the catalog {name} {said}; give one that speaks REST (http://…, https://…), or SQL (sqlite:///…, "
        f"postgresql+psycopg2://…)"
    )


def _open_sql(name: str, options: dict[str, Any]) -> "SqlCatalog":
    from pyiceberg.catalog.sql import SqlCatalog

    for _table in range(_OWN_TABLES):
        try:
            return SqlCatalog(name, **options)
        except DBAPIError as error:
            # It makes those of its own tables that are not there: another process may be doing the same.
            if "already exists" not in str(error):
                raise
    return SqlCatalog(name, **options)


def refuse_missing_file(address: str) -> None:
    """SettingsError if the catalog is a file of SQLite that is not there: looking for it would make one."""
    name = parse_address(address).place
    uri = str(_options(name)["uri"])
    if not uri.startswith("sqlite:///"):
        return
    file = Path(unquote(urlsplit(uri).path)[1:])
    if not file.is_file():
        raise SettingsError(f"{address} is no lake: its catalog, {file}, is not there; holdfast spark archive makes it")


class _PatientRestCatalog(RestCatalog):
    """Waits for an answer, and not for ever as pyiceberg does."""

    def _create_session(self) -> Session:
        session = super()._create_session()
        for scheme in ("http://", "https://"):
            session.mount(scheme, _PatientAdapter())
        return session


class _PatientAdapter(HTTPAdapter):
    def send(self, request: Any, *arguments: Any, **options: Any) -> Any:
        options["timeout"] = options.get("timeout") or _PATIENCE_S
        return super().send(request, *arguments, **options)


# ---- errors


@contextmanager
def _errors(
    address: str, name: str, secrets: tuple[str, ...], family: type[HoldfastError], text: str
) -> Iterator[None]:
    try:
        yield
    except CATALOG_ERRORS as error:
        said = _describe(error, secrets)
        raise _translated(error, said, address, name, family, text) from (None if secrets else error)


def _translated(
    error: Exception, said: str, address: str, name: str, family: type[HoldfastError], text: str
) -> HoldfastError:
    if isinstance(error, _ASKED) or "authentication failed" in said:
        upper = name.upper()
        return SettingsError(
            f"the lake {address} {text}: the catalog refuses what it was shown: {said}; set "
            f"PYICEBERG_CATALOG__{upper}__CREDENTIAL or PYICEBERG_CATALOG__{upper}__TOKEN (in a database: the user and "
            f"password of its URI), or write them into [iceberg.{name}] of a settings file that {SETTINGS} names"
        )
    if isinstance(error, _SILENT) and not isinstance(error, HTTPError):
        return TransientError(
            f"the lake {address} {text}: the catalog {name} does not answer: {said}; see whether it runs, and what uri "
            f"says"
        )
    return family(f"the lake {address} {text}: {said}")


def _describe(error: BaseException, secrets: tuple[str, ...]) -> str:
    parts = (line.strip() for line in str(error).splitlines())
    text = ": ".join(part for part in parts if part) or type(error).__name__
    for secret in sorted(secrets, key=len, reverse=True):
        for form in (secret, quote(secret, safe="")):
            text = text.replace(form, _HIDDEN)
    return text[:500]
