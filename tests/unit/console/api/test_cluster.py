"""The cluster by the API, and the node that a call names."""

import asyncio
from pathlib import Path

import msgspec

from holdfast.console.api import ENDPOINTS
from holdfast.control.words import ClusterInfo, TakeoverRows, TakeoversRequest
from tests.browser.stand_in_cluster import CLUSTER, TAKEOVERS
from tests.unit.console.fake_broker import NODE
from tests.unit.console.fake_history import fake_history
from tests.unit.console.visitor import Place, console_place


def test_the_cluster_and_its_takeovers_come_as_the_broker_tells_them(tmp_path: Path) -> None:
    async def act() -> None:
        async with console_place(tmp_path) as place:
            place.broker.refusals.clear()
            place.broker.answers |= {"cluster": CLUSTER, "takeovers": TakeoverRows(TAKEOVERS)}
            viewer = place.as_("viewer")
            found = await viewer.get("/api/v1/cluster")
            assert msgspec.json.decode(found.body, type=ClusterInfo) == CLUSTER
            listed = (await viewer.get("/api/v1/cluster/takeovers?client=press-00004")).json()
            assert [one["session_id"] for one in listed["items"]] == [one.session_id for one in TAKEOVERS]
            assert ("takeovers", TakeoversRequest("press-00004")) in place.broker.requests

    asyncio.run(act())


def test_a_single_node_has_no_cluster(tmp_path: Path) -> None:
    async def act() -> None:
        async with console_place(tmp_path) as place:
            answer = await place.as_("viewer").get("/api/v1/cluster")
            assert (answer.status, answer.json()["detail"]) == (404, "this broker is a single node")

    asyncio.run(act())


async def _in_cluster(place: Place) -> None:
    place.broker.answers["node"] = msgspec.structs.replace(NODE, cluster='{"cluster/node": "2", "cluster/epoch": "7"}')
    await place.visitor.console.ask_node()


def test_every_call_takes_the_node_of_its_console_and_no_other(tmp_path: Path) -> None:
    async def act() -> None:
        async with console_place(tmp_path) as place:
            admin = place.as_("admin")
            for given in ("stats", "stats?node="):
                assert (await admin.get(f"/api/v1/{given}")).status == 200
            alone = await admin.get("/api/v1/stats?node=2")
            assert (alone.status, alone.json()["parameter"]) == (404, "node")
            await _in_cluster(place)
            assert (await admin.get("/api/v1/stats?node=2")).status == 200
            wrong = await admin.get("/api/v1/stats?node=one")
            assert (wrong.status, wrong.json()["parameter"]) == (400, "node")
            for endpoint in ENDPOINTS:
                needed = "&".join(f"{one.name}=1" for one in endpoint.parameters if one.required)
                path = "/".join("x" if part.startswith("{") else part for part in endpoint.segments)
                answer = await admin.ask(endpoint.method, f"/api/v1/{path}?node=1&{needed}".rstrip("&"))
                assert (answer.status, answer.json().get("parameter")) == (404, "node"), endpoint.path
            assert "ask the console of node 1" in answer.json()["detail"]
            assert [word for word, _body in place.broker.requests if word not in ("node", "watch", "blocks")] == []

    asyncio.run(act())


def test_the_history_process_is_not_told_of_the_node(tmp_path: Path) -> None:
    async def act() -> None:
        async with fake_history(tmp_path) as history, console_place(tmp_path, history.find) as place:
            await _in_cluster(place)
            history.answers["/zones"] = []
            assert (await place.as_("reader").get("/api/v1/history/zones?node=2")).status == 200
            assert history.asked == [("/zones", [])]

    asyncio.run(act())
