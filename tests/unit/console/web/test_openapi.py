"""The OpenAPI document."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import msgspec

from holdfast.console.api import ENDPOINTS
from holdfast.console.api.past import EXPORT_TYPES
from holdfast.console.live.alarms import Situation
from holdfast.console.web.openapi import make_document
from holdfast.control.words import (
    Blocked,
    BlockInfo,
    Kicked,
    Nothing,
    Purged,
    SubscriptionInfo,
    Subscriptions,
    TakeoverInfo,
    TakeoverRows,
    Unblocked,
)
from tests.unit.console.visitor import Place, console_place

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

    leases = answer("history/leases")["200"]["content"]["application/json"]["schema"]
    assert leases == {"type": "array", "items": {"$ref": "#/components/schemas/ShownLease"}}
    assert set(answer("history/export")["200"]["content"]) == set(EXPORT_TYPES.values())
    assert {"404", "410"} <= answer("history/density").keys()
    assert paths["/api/v1/log-level"]["post"]["requestBody"]["required"]
    assert not paths["/api/v1/reload"]["post"]["requestBody"]["required"]


def test_answers_are_what_the_document_says(tmp_path: Path) -> None:
    """Every field is there, and no other."""
    answers: dict[tuple[str, str], Any] = {(one.method, one.path): one.answer for one in ENDPOINTS}

    async def work(place: Place) -> None:
        admin, console = place.as_("admin"), place.visitor.console
        place.broker.answers |= {
            "kick": Kicked("10.0.0.1"),
            "end_session": Nothing(),
            "purge_queue": Purged(3),
            "block": Blocked((BlockInfo("client", "a"),), 1),
            "unblock": Unblocked((BlockInfo("client", "a"),)),
            "subscriptions": Subscriptions((SubscriptionInfo("a/#", 1, session_id="c"),), True),
            "takeovers": TakeoverRows((TakeoverInfo("c", 5, 1, 7, "1.2.3", True, 9, ""),)),
        }
        place.broker.refusals.clear()
        console.alarms.judge(Situation(console.live, 60, 0))
        for method, path, target in (
            ("POST", "clients/{id}/kick", "clients/a/kick"),
            ("GET", "subscriptions", "subscriptions?topic=a"),
            ("DELETE", "sessions/{id}", "sessions/a"),
            ("DELETE", "sessions/{id}/queue", "sessions/a/queue"),
            ("PUT", "blocks/{kind}/{value}", "blocks/client/a"),
            ("DELETE", "blocks/{kind}/{value}", "blocks/client/a"),
            ("GET", "blocks", "blocks"),
            ("GET", "cluster/takeovers", "cluster/takeovers"),
            ("GET", "series", "series"),
            ("GET", "series", "series?names=clients_behind"),
            ("GET", "alarms", "alarms"),
            ("POST", "alarms/{name}/mute", "alarms/broker_away/mute"),
            ("GET", "audit", "audit"),
            ("GET", "jobs", "jobs"),
            ("GET", "me", "me"),
        ):
            body = {"seconds": 5} if path.endswith("mute") else None if method == "GET" else {}
            answer = await admin.ask(method, f"/api/v1/{target}", body)
            assert answer.status == 200, (target, answer.body)
            kind = answers[method, path]
            assert kind is not None, target
            decoded = msgspec.json.decode(answer.body, type=kind)
            assert msgspec.json.decode(msgspec.json.encode(decoded)) == answer.json(), target

    async def run() -> None:
        async with console_place(tmp_path) as place:
            await work(place)

    asyncio.run(run())
