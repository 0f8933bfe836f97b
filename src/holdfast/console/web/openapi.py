"""The OpenAPI 3.1 document, made from the table of endpoints."""

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from holdfast.console.web.endpoints import ANYBODY, JSON, NODE, Endpoint, Parameter

_REFERENCES: Final = "#/components/schemas/{name}"
_PROBLEM: Final = {
    "type": "object",
    "description": "RFC 9457: what was wrong, and what would be right.",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "parameter": {"type": "string"},
    },
}
#: Statuses that every call may answer with.
_EVERYWHERE: Final = {
    "400": "A parameter or field is wrong; `parameter` names it.",
    "403": "Wrong Host, a foreign origin, a missing header, or a role that does not suffice.",
    "404": "There is no such thing, or `node` is not the node of this console.",
    "501": "The broker is older than the console, and does not know this.",
    "503": "The broker or the history process is away.",
}


#: Further statuses of questions that the history process answers.
_PAST: Final = {
    "404": "There is no such thing, no such zone, or `node` is not the node of this console.",
    "410": "Retention has passed into the range; `border_us` says where it begins now.",
    "502": "The history process answered with something that cannot be passed on.",
}


def make_document(endpoints: Sequence[Endpoint], version: str) -> dict[str, Any]:
    """The document. `x-role` of each call is the role that it needs."""
    structs = [kind for endpoint in endpoints for kind in (endpoint.body, endpoint.answer) if kind is not None]
    _schemas, components = msgspec.json.schema_components(dict.fromkeys(structs), ref_template=_REFERENCES)
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(f"/api/v1/{endpoint.path}", {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Holdfast",
            "version": version or "0",
            "description": "Times are microseconds since 1970 (`_us`). Changes need the header `X-Holdfast: 1`.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": {**components, "Problem": _PROBLEM},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "Made by `holdfast token add --role`."},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "holdfast", "description": "Set by `login`."},
            },
        },
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    names = re.findall(r"{(\w+)}", endpoint.path)
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}, "description": "Percent-encoded."}
        for name in names
    ]
    parameters += [_parameter(parameter) for parameter in (*endpoint.parameters, NODE)]
    is_public = endpoint.role == ANYBODY
    errors = dict(_EVERYWHERE)
    if not is_public or endpoint.path == "login":
        errors["401"] = "No login, or one that has ended."
    if endpoint.path.startswith("history/"):
        errors |= _PAST
    if endpoint.missing:
        errors["404"] = f"{endpoint.missing} Or `node` is not the node of this console."
    if endpoint.path == "login":
        errors["429"] = "Too many tries; `Retry-After` says when the next one is taken."
    if endpoint.conflicts:
        errors["409"] = endpoint.conflicts
    if endpoint.body is not None:
        errors |= {"408": "It took too long to arrive.", "413": "It is too long.", "415": "It is not JSON."}
        parameters.append(
            {"name": "X-Holdfast", "in": "header", "required": True, "schema": {"type": "string", "enum": ["1"]}}
        )
    operation: dict[str, Any] = {
        "operationId": _operation_id(endpoint),
        "summary": endpoint.summary,
        "x-role": endpoint.role,
        "security": [] if is_public else [{"token": []}, {"cookie": []}],
        "parameters": parameters,
        "responses": {"200": _answer(endpoint)} | {status: _problem(text) for status, text in sorted(errors.items())},
    }
    if endpoint.body is not None:
        schema = {"$ref": _REFERENCES.format(name=endpoint.body.__name__)}
        needed = any(field.required for field in msgspec.structs.fields(endpoint.body))
        operation["requestBody"] = {"required": needed, "content": {"application/json": {"schema": schema}}}
    return operation


def _operation_id(endpoint: Endpoint) -> str:
    words = re.findall(r"\w+", endpoint.path)
    return "_".join((endpoint.method.lower(), *words)).replace("-", "_")


def _parameter(parameter: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer" if parameter.kind == "integer" else "string"}
    bounds = {"minimum": parameter.minimum, "maximum": parameter.maximum, "default": parameter.default}
    schema |= {key: value for key, value in bounds.items() if value is not None}
    choices = ("0", "1") if parameter.kind == "flag" else parameter.choices
    if choices:
        schema["enum"] = list(choices)
    if parameter.most > 1:
        schema = {"type": "array", "items": schema, "maxItems": parameter.most}
    return {
        "name": parameter.name,
        "in": "query",
        "required": parameter.required,
        "description": parameter.meaning,
        "schema": schema,
    }


def _answer(endpoint: Endpoint) -> dict[str, Any]:
    if endpoint.answer is not None:
        schema: dict[str, Any] = {"$ref": _REFERENCES.format(name=endpoint.answer.__name__)}
        if endpoint.is_list:
            schema = {"type": "array", "items": schema}
    else:
        schema = {"type": "object" if JSON in endpoint.content_types else "string"}
    return {"description": endpoint.summary, "content": {kind: {"schema": schema} for kind in endpoint.content_types}}


def _problem(text: str) -> dict[str, Any]:
    schema = {"$ref": _REFERENCES.format(name="Problem")}
    return {"description": text, "content": {"application/problem+json": {"schema": schema}}}
