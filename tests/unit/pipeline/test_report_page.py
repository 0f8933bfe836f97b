"""The page of a report from figures that are made up: every section, also an empty one, and names that are hostile."""

import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser

import pytest

from holdfast.pipeline.report import words
from holdfast.pipeline.report.charts import hour_chart, size_chart, timeline_chart
from holdfast.pipeline.report.figures import Beside, Figures, Series, Share, Sizes, Timeline, Totals
from holdfast.pipeline.report.page import page

AT = datetime(2026, 7, 1, 12, tzinfo=UTC)
SECTIONS = ["traffic", "patterns", "heaviest", "sizes", "hours", "silences", "dropped", "sessions"]


class Outline(HTMLParser):
    """Tags that are open and never closed are a fault; those of a section are counted."""

    def __init__(self) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.sections: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "section":
            self.sections.append(dict(attrs)["id"] or "")
        if tag not in ("meta", "link", "br", "rect", "line"):
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag


def outline(text: str) -> Outline:
    found = Outline()
    found.feed(text)
    found.close()
    assert found.stack == []
    return found


def test_a_page_without_any_message_has_every_section_and_says_so() -> None:
    text = page(Figures("Nothing", "/data", AT, Totals()))

    assert outline(text).sections == SECTIONS
    assert "No messages in this time." in text
    assert "Nothing was dropped, refused or ended." in text
    assert "Everybody has everything." in text


def test_names_of_topics_and_clients_are_only_text() -> None:
    evil = '<script>alert("1")</script>'
    share = Share(evil, 10, 100, 1, 1, AT)
    timeline = Timeline(AT, 60, 2, [Series(evil, {0: 4, 1: 6})])
    totals = Totals(10, 100, 1, 1, AT, AT + timedelta(seconds=90), (1, 2, 7), 3, 0)
    beside = Beside(1, 1, 1, 0, 0, [], 1, 5, [share])
    found = Figures(evil, evil, AT, totals, timeline, 1, [share], [share], [share], [share], beside=beside)

    tags = outline(page(found)).tags

    assert "script" not in tags
    assert tags.count("svg") == 1


def test_nothing_is_fetched_and_no_script_runs() -> None:
    text = page(Figures("Page", "/data", AT, Totals()))

    assert re.findall(r'(?:src|href)="([^"]*)"', text) == ["data:,"]
    assert "url(" not in text
    assert "@import" not in text


def test_a_timeline_stacks_its_series_up_to_the_top() -> None:
    series = [Series("a/+", {0: 30, 2: 10}), Series("other topics", {0: 10})]
    text = timeline_chart(Timeline(AT, 3600, 3, series))

    rects = [(kind, float(tall)) for kind, tall in re.findall(r'<rect class="(\w+)".*? height="([\d.]+)"', text)]
    assert [kind for kind, _tall in rects] == ["c1", "c0", "c1"]
    assert rects[0][1] == pytest.approx(3 * rects[1][1], rel=0.01)
    assert sum(tall for _kind, tall in rects[:2]) == pytest.approx(254, abs=1)  # the whole height: 40 is a round number
    assert "2026-07-01 12:00:00 UTC, 1 h: 40 messages\na/+: 30\nother topics: 10" in text


@pytest.mark.parametrize("bins", [{0: 5}, {4: 1}, {0: 1, 21: 3}])
def test_sizes_of_any_range_have_a_picture(bins: dict[int, int]) -> None:
    text = size_chart(Sizes(bins, 0, 8, 1_500_000, 1_500_000))

    assert text.count("<title>") >= len(bins)
    assert "nan" not in text


def test_a_few_days_have_rows_of_their_own_and_many_are_shown_by_the_week() -> None:
    few = hour_chart({(20_000 + day, 5): 10 for day in (0, 1, 3)})
    many = hour_chart({(20_000 + day, hour): 7 for day in range(70) for hour in range(24)})

    assert few.count("<title>") == 4 * 24
    assert many.count("<title>") == 7 * 24
    assert "Mon, 00:00 to 01:00: 7 messages a week" in many


@pytest.mark.parametrize(
    ("made", "right"),
    [
        (words.number(1234), "1,234"),
        (words.number(12_345_678), "12.35 million"),
        (words.size(999), "999 B"),
        (words.size(1_500_000), "1.5 MB"),
        (words.duration(0.25), "250 ms"),
        (words.duration(75), "1 min 15 s"),
        (words.duration(90_000), "1 d 1 h"),
        (words.duration(7200), "2 h"),
        (words.share(1, 3), "33.3 %"),
        (words.share(1, 100_000), "< 0.1 %"),
        (words.share(1, 0), "0 %"),
        (words.binary_size(65_536), "64 KiB"),
    ],
)
def test_numbers_have_units(made: str, right: str) -> None:
    assert made == right
