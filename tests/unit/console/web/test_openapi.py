"""The OpenAPI document."""

import json
import re
from typing import Any

from holdfast.console.api import ENDPOINTS
from holdfast.console.api.past import EXPORT_TYPES
from holdfast.console.web.openapi import make_document

DOCUMENT = make_document(ENDPOINTS, "1.2")


def test_every_reference_leads_somewhere() -> None:
    named = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(DOCUMENT)))
    assert named
    assert named <= set(DOCUMENT["components"]["schemas"])


def test_every_call_has_its_own_name_and_a_summary() -> None:
    operations = [operation for path in DOCUMENT["paths"].values() for operation in path.values()]
    names = [operation["operationId"] for operation in operations]
    assert len(names) == len(set(names)) == len(ENDPOINTS)
    assert all(operation["summary"].endswith(".") for operation in operations)


def test_parts_of_a_path_are_declared() -> None:
    for path, operations in DOCUMENT["paths"].items():
        for operation in operations.values():
            declared = [entry["name"] for entry in operation["parameters"] if entry["in"] == "path"]
            assert declared == re.findall(r"{(\w+)}", path)


def test_it_is_json_and_of_version_3_1() -> None:
    assert json.loads(json.dumps(DOCUMENT))["openapi"] == "3.1.0"


def test_lists_files_and_needed_bodies_are_said_to_be_such() -> None:
    paths = DOCUMENT["paths"]

    def answer(path: str) -> Any:
        return paths[f"/api/v1/{path}"]["get"]["responses"]

    assert answer("history/leases")["200"]["content"]["application/json"]["schema"] == {"type": "array"}
    assert set(answer("history/export")["200"]["content"]) == set(EXPORT_TYPES.values())
    assert {"404", "410"} <= answer("history/density").keys()
    assert paths["/api/v1/log-level"]["post"]["requestBody"]["required"]
    assert not paths["/api/v1/reload"]["post"]["requestBody"]["required"]
