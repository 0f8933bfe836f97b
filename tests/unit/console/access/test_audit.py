"""The audit file."""

import asyncio
from pathlib import Path

import pytest

from holdfast.console.access.audit import KEPT_DAYS, Audit
from holdfast.console.access.identity import Identity
from holdfast.console.problems import ProblemError
from holdfast.control.words import Kicked, Request
from holdfast.model.clock import ManualClock
from holdfast.model.time import DAY_US
from tests.unit.console.visitor import Place, console_place

EVA = Identity("eva", "operator", "user")


def test_entries_are_on_disk_before_the_change_and_have_their_outcome_after_it(tmp_path: Path) -> None:
    audit = Audit(tmp_path / "audit", ManualClock())
    entry = audit.begin(EVA, "10.0.0.1", "kick", "a\nb", {"reason": "x"})
    (shown,) = Audit(tmp_path / "audit", ManualClock()).read(10)
    assert (shown["name"], shown["target"], shown["outcome"]) == ("eva", "a\nb", None)
    audit.end(entry, "done")
    assert audit.read(10)[0]["outcome"] == "done"


def test_the_newest_entry_comes_first_and_pages_go_on(tmp_path: Path) -> None:
    clock = ManualClock()
    audit = Audit(tmp_path / "audit", clock)
    for number in range(5):
        audit.begin(EVA, "", "kick", str(number))
        clock.advance(DAY_US // 2)
    first = audit.read(2)
    rest = audit.read(10, (first[-1]["at_us"], first[-1]["id"]))
    assert [entry["target"] for entry in (*first, *rest)] == ["4", "3", "2", "1", "0"]


def test_old_files_are_removed(tmp_path: Path) -> None:
    clock = ManualClock()
    audit = Audit(tmp_path / "audit", clock)
    audit.begin(EVA, "", "kick", "old")
    clock.advance((KEPT_DAYS + 1) * DAY_US)
    audit.begin(EVA, "", "kick", "new")
    audit.remove_old()
    assert [entry["target"] for entry in audit.read(10)] == ["new"]


def test_a_torn_line_hides_no_other(tmp_path: Path) -> None:
    audit = Audit(tmp_path / "audit", ManualClock())
    audit.begin(EVA, "", "kick", "a")
    (path,) = (tmp_path / "audit").iterdir()
    with path.open("ab") as file:
        file.write(b'{"id": "torn')
    audit.begin(EVA, "", "kick", "b")
    assert sorted(entry["target"] for entry in audit.read(10)) == ["a", "b"]


def test_what_cannot_be_written_is_a_refusal(tmp_path: Path) -> None:
    (tmp_path / "audit").write_text("")
    with pytest.raises(ProblemError) as refused:
        Audit(tmp_path / "audit", ManualClock()).begin(EVA, "", "kick", "a")
    assert refused.value.status == 503


def test_a_change_that_was_made_is_answered_although_its_outcome_cannot_be_written(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async def work(place: Place) -> None:
        place.broker.answers["kick"] = Kicked("10.0.0.1")
        answer = place.broker.answer

        def answer_and_fill_the_disk(request: Request, writer: asyncio.StreamWriter) -> None:
            if request.word == "kick":
                (file,) = place.visitor.console.options.state_folder.glob("audit/*")
                file.unlink()
                file.symlink_to("/dev/full")
            answer(request, writer)

        place.broker.answer = answer_and_fill_the_disk  # type: ignore[method-assign]
        kicked = await place.as_("operator").ask("POST", "/api/v1/clients/a/kick", {})
        assert (kicked.status, kicked.json()["kicked"]) == (200, True)
        # Nothing more is changed while there is no room for it.
        refused = await place.as_("operator").ask("POST", "/api/v1/clients/a/kick", {})
        assert refused.status == 503
        assert [word for word, _body in place.broker.requests].count("kick") == 1

    async def run() -> None:
        async with console_place(tmp_path) as place:
            await work(place)

    asyncio.run(run())
    assert "No space left on device" in capfd.readouterr().out
