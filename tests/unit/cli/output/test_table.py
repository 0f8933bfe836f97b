"""Tables at any width: nothing is cut."""

import pytest

from holdfast.cli.output.table import TableColumn, print_table

TOPIC = "plants/hamburg/hall/2/machine/press-0007/telemetry/temperature/bearing/left"
COLUMNS: tuple[TableColumn[tuple[str, ...]], ...] = (
    TableColumn("time", lambda row: row[0]),
    TableColumn("topic", lambda row: row[1], least=30),
    TableColumn("place", lambda row: row[2], dispensable=2),
    TableColumn("publisher", lambda row: row[3], least=12, dispensable=1),
    TableColumn("count", lambda row: row[4], right=True),
)
ROW: tuple[str, ...] = ("2026-11-16 19:10:52.106", TOPIC, "2/1794856251445000", "gateway-of-hall-2", "7")


def printed(capsys: pytest.CaptureFixture[str], width: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(width))
    print_table([ROW], *COLUMNS)
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_a_topic_is_whole_at_any_width(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = printed(capsys, width, monkeypatch)
    assert all(len(line) <= width for line in lines if not line.startswith("not shown"))
    begins = lines[0].index("topic")
    pieces = [line[begins:].split(" ")[0] for line in lines[1:] if not line.startswith("not shown")]
    assert "".join(pieces) == TOPIC
    assert lines[1].rstrip().endswith(" 7")
    assert "…" not in "".join(lines)
    if width >= 80:
        assert "2026-11-16 19:10:52.106" in lines[1]


def test_dispensable_columns_go_first_and_are_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert printed(capsys, 60, monkeypatch)[-1] == (
        "not shown for want of width: place, publisher; see --json, or a wider terminal"
    )
    assert "not shown for want of width: place;" in printed(capsys, 80, monkeypatch)[-1]
    assert "not shown" not in printed(capsys, 200, monkeypatch)[-1]


def test_a_table_that_no_terminal_shows_is_as_wide_as_its_content(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    print_table([ROW], *COLUMNS)
    assert len(capsys.readouterr().out.splitlines()) == 2
