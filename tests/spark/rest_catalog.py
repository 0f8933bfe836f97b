"""A catalog of Iceberg that speaks REST, in a thread of the test: enough of the protocol for tables.

What it stores lies in a catalog of SQL behind it. It reads requests and checks their requirements with pyiceberg's own
types; that a client understands it is no proof for other servers.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableRequest, Table

TOKEN: Final = "eyJ-a-token-that-nobody-may-see"
_STATUS: Final = {
    NoSuchTableError: 404,
    NoSuchNamespaceError: 404,
    NamespaceAlreadyExistsError: 409,
    TableAlreadyExistsError: 409,
    CommitFailedException: 409,
}


@dataclass
class RestCatalogServer:
    address: str
    #: Commits that are made, and of which the client hears that nobody knows.
    lost_commits: int = 0
    #: Commits that are made, and asked for again by something on the way, which hears of a conflict and says so.
    repeated_commits: int = 0
    commits: int = 0

    @property
    def options(self) -> dict[str, str]:
        return {"uri": self.address, "token": TOKEN}


@contextmanager
def rest_catalog(folder: Path) -> Iterator[RestCatalogServer]:
    lock = threading.Lock()
    store = SqlCatalog(
        "behind", uri=f"sqlite:///{folder}/rest.db?check_same_thread=false", warehouse=f"file://{folder}/warehouse"
    )

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            body = self.rfile.read(length)
            if self.headers.get("authorization") != f"Bearer {TOKEN}":
                self._answer(401, {"error": {"message": "who are you", "type": "NotAuthorized", "code": 401}})
                return
            try:
                with lock:
                    answer = self._answer_to(body)
            except tuple(_STATUS) as error:
                code = _STATUS[type(error)]
                self._answer(code, {"error": {"message": str(error), "type": type(error).__name__, "code": code}})
                return
            self._answer(500 if answer is None else 200, answer or {"error": _UNKNOWN})

        do_GET = do_POST = handle_one  # noqa: N815

        def _answer_to(self, body: bytes) -> Any:
            path = self.path.partition("?")[0].removeprefix("/v1/").split("/")
            if path == ["config"]:
                return {"defaults": {}, "overrides": {}}
            if path == ["namespaces"]:
                asked = json.loads(body)
                store.create_namespace(tuple(asked["namespace"]))
                return asked
            if len(path) == 3:
                wanted = json.loads(body)
                made = store.create_table(
                    (path[1], wanted["name"]),
                    Schema.model_validate(wanted["schema"]),
                    partition_spec=PartitionSpec.model_validate(wanted["partition-spec"]),
                    properties=wanted["properties"],
                )
                return _described(made)
            table = store.load_table((path[1], path[3]))
            if self.command == "GET":
                return _described(table)
            change = CommitTableRequest.model_validate_json(body)
            done = store.commit_table(table, change.requirements, change.updates)
            server.commits += 1
            if server.lost_commits:
                server.lost_commits -= 1
                return None
            if server.repeated_commits:
                server.repeated_commits -= 1
                store.commit_table(table, change.requirements, change.updates)
            return {"metadata-location": done.metadata_location, "metadata": _plain(done.metadata)}

        def _answer(self, code: int, content: Any) -> None:
            data = json.dumps(content).encode()
            self.send_response(code)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_arguments: Any) -> None:
            """Nothing: tests say what they see."""

    with closing(store), ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        http.daemon_threads = True
        server = RestCatalogServer(f"http://127.0.0.1:{http.server_address[1]}")
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()


_UNKNOWN: Final = {"message": "nobody knows what happened", "type": "CommitStateUnknown", "code": 500}


def _described(table: Table) -> dict[str, Any]:
    return {"metadata-location": table.metadata_location, "metadata": _plain(table.metadata), "config": {}}


def _plain(metadata: Any) -> Any:
    return json.loads(metadata.model_dump_json())
