"""What a replay notes, so that it can be killed and go on."""

from pathlib import Path

import pytest

from holdfast.model.errors import PermanentError, SettingsError
from holdfast.pipeline.replay.schedule import ReplayRound
from holdfast.pipeline.replay.state import NOTHING, ConnectionProgress, ReplayPlan, open_state, read_note, write_note

ASKED = {"--data": "/data", "--to": "h:1883", "--since": "-2h"}
PLAN = ReplayPlan("0123abcd", ASKED, {0: 17, 3: 40}, 2, (ReplayRound(5, 20, 7), ReplayRound(20, 41, 3)), 5, 40)


def test_a_plan_is_what_it_was_when_it_is_read_again(tmp_path: Path) -> None:
    with open_state(tmp_path / "tuesday") as state:
        assert state.plan(ASKED) is None
        state.keep(PLAN)
    with open_state(tmp_path / "tuesday") as state:
        found = state.plan(ASKED)
        assert found is not None
        assert found._replace(rounds=tuple(found.rounds)) == PLAN
        assert found.messages == 10
        assert not state.is_complete
        state.complete()
        assert state.is_complete


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (ASKED | {"--since": "-3h"}, "was begun with --since -2h, and now it is -3h"),
        (ASKED | {"--topic": "a/#"}, "was begun with --topic not given, and now it is a/#"),
        ({"--data": "/data", "--since": "-2h"}, "was begun with --to h:1883, and now it is not given"),
    ],
)
def test_another_request_under_the_same_name_is_refused(tmp_path: Path, now: dict[str, str], words: str) -> None:
    with open_state(tmp_path / "tuesday") as state:
        state.keep(PLAN)
        with pytest.raises(SettingsError, match=f"the replay tuesday {words}; give what it was, or another --name"):
            state.plan(now)


@pytest.mark.parametrize("content", ["", "{}", '{"version": 1}', '{"version": 2}', "[1]"])
def test_a_plan_that_cannot_be_read_is_not_replaced_silently(tmp_path: Path, content: str) -> None:
    (tmp_path / "plan.json").write_text(content)
    with open_state(tmp_path) as state, pytest.raises(PermanentError, match="use another name"):
        state.plan(ASKED)


def test_notes_are_kept_by_connection_and_a_broken_one_is_none(tmp_path: Path) -> None:
    write_note(tmp_path, 1, ConnectionProgress(4711, 20, 999))
    write_note(tmp_path, 2, ConnectionProgress(1, 1, 1))
    (tmp_path / "connection-2").write_text("47")
    with open_state(tmp_path) as state:
        assert state.notes(3) == [NOTHING, ConnectionProgress(4711, 20, 999), NOTHING]
    assert read_note(tmp_path / "nowhere", 0) == NOTHING


def test_two_at_the_same_time_are_refused(tmp_path: Path) -> None:
    already = "the replay x is running already"
    with open_state(tmp_path / "x"), pytest.raises(SettingsError, match=already), open_state(tmp_path / "x"):
        pass
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match=r"--state: .* cannot be written"), open_state(tmp_path / "file"):
        pass
