"""Calls of jobs: fields that are checked, conflicts, roles, the audit, and where passwords are not."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.files.token_file import add_token
from tests.unit.console.fake_job import FakeJob
from tests.unit.console.visitor import Place, Visitor, console_place

BODY = {"kind": "replay", "filter": "plant/#", "from": "-1h", "speed": "10"}


def run(work: Callable[[Place, FakeJob], Awaitable[None]], folder: Path, **options: Any) -> None:
    async def inside() -> None:
        fake = FakeJob()
        async with console_place(folder, run_job=fake.run, **options) as place:
            await work(place, fake)

    asyncio.run(inside())


async def listed(visitor: Visitor) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await visitor.get("/api/v1/jobs")).json()["items"]
    return found


def test_a_replay_is_started_listed_stopped_and_resumed(tmp_path: Path) -> None:
    async def work(place: Place, fake: FakeJob) -> None:
        operator, viewer = place.as_("operator"), place.as_("viewer")
        answer = await operator.ask("POST", "/api/v1/jobs", BODY)
        assert answer.status == 200, answer.body
        job = answer.json()
        await fake.began.wait()
        assert "--to-prefix=replayed/" in fake.arguments[0]
        assert "--port=1883" in fake.arguments[0]
        fake.tell(messages=7, place="0:5", share=0.5)
        (shown,) = await listed(viewer)
        assert (shown["id"], shown["state"], shown["messages"], shown["by"]) == (job["id"], "running", 7, "operator")
        assert shown["command"].startswith("holdfast replay --from=")
        assert (await operator.ask("POST", "/api/v1/jobs", BODY)).status == 409
        wrong = await operator.ask("POST", f"/api/v1/jobs/{job['id']}/resume", {"speed": "fast"})
        assert (wrong.status, wrong.json()["parameter"]) == (400, "speed")
        stopped = await operator.ask("POST", f"/api/v1/jobs/{job['id']}/stop", {})
        assert (stopped.status, stopped.json()["state"]) == (200, "stopped")
        assert (await operator.ask("POST", f"/api/v1/jobs/{job['id']}/stop", {})).status == 409
        resumed = await operator.ask("POST", f"/api/v1/jobs/{job['id']}/resume", {"speed": "max"})
        assert (resumed.status, resumed.json()["state"]) == (200, "running")
        assert resumed.json()["replay"]["speed"] == "max"
        audit = (await place.as_("admin").get("/api/v1/audit")).json()["items"]
        assert [(one["what"], one["target"], one["outcome"].split(":")[0]) for one in audit[::-1]] == [
            ("start replay", "plant/#", "done"),
            ("stop job", job["id"], "done"),
            ("stop job", job["id"], "failed"),
            ("resume job", job["id"], "done"),
        ]

    run(work, tmp_path)


@pytest.mark.parametrize(
    ("fields", "parameter"),
    [
        ({"kind": "rm"}, "kind"),
        ({"filter": "$share/g/a"}, "filter"),
        ({"from": "soon"}, "from"),
        ({"prefix": ""}, "confirm"),
        ({"password": "p"}, "user"),
        ({"user": "u", "password": "a\0b"}, "password"),
        ({"shell": "x"}, "shell"),
    ],
)
def test_a_wrong_field_starts_nothing(tmp_path: Path, fields: dict[str, str], parameter: str) -> None:
    async def work(place: Place, fake: FakeJob) -> None:
        answer = await place.as_("operator").ask("POST", "/api/v1/jobs", BODY | fields)
        assert (answer.status, answer.json()["parameter"]) == (400, parameter)
        assert fake.arguments == []

    run(work, tmp_path)


def test_a_password_is_in_no_answer_and_no_audit(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    async def work(place: Place, fake: FakeJob) -> None:
        body = BODY | {"user": "eva", "password": "pl4nted"}
        answer = await place.as_("operator").ask("POST", "/api/v1/jobs", body)
        assert answer.status == 200
        await fake.began.wait()
        assert list(fake.environments[0].values()) == ["pl4nted"]
        task = place.visitor.console.jobs._running[answer.json()["id"]].task
        fake.finish(1, "refused")
        assert task is not None
        await task
        again = await place.as_("operator").ask(
            "POST", f"/api/v1/jobs/{answer.json()['id']}/resume", {"password": "p2"}
        )
        assert again.status == 200
        shown = answer.body + again.body + (await place.as_("viewer").get("/api/v1/jobs")).body
        assert b"pl4nted" not in shown

    run(work, tmp_path)
    for path in (path for path in tmp_path.rglob("*") if path.is_file()):
        assert b"pl4nted" not in path.read_bytes(), path
    out, err = capfd.readouterr()
    assert "pl4nted" not in out + err


def test_a_restricted_token_plays_its_topics_only(tmp_path: Path) -> None:
    token = add_token(tmp_path / "tokens", "part", role="operator", filters=("plant/1/#",))

    async def work(place: Place, fake: FakeJob) -> None:
        part = Visitor(place.visitor.app, place.visitor.console, token=token)
        assert (await part.ask("POST", "/api/v1/jobs", BODY)).status == 403
        assert (await part.ask("POST", "/api/v1/jobs", BODY | {"filter": "plant/1/temp"})).status == 200
        other = (await place.as_("operator").ask("POST", "/api/v1/jobs", BODY)).json()
        assert [job["replay"]["filter"] for job in await listed(part)] == ["plant/1/temp"]
        assert len(await listed(place.as_("operator"))) == 2
        for act in ("stop", "resume"):
            refused = await part.ask("POST", f"/api/v1/jobs/{other['id']}/{act}", {})
            assert refused.status == 403
            assert "plant/#" not in refused.json()["detail"]

    run(work, tmp_path)


def test_a_console_without_a_broker_starts_nothing(tmp_path: Path) -> None:
    async def work(place: Place, fake: FakeJob) -> None:
        answer = await place.as_("operator").ask("POST", "/api/v1/jobs", BODY)
        assert (answer.status, fake.arguments) == (503, [])

    run(work, tmp_path, read_only=True)
