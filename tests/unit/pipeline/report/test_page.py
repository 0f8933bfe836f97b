"""The page of a report from figures that are made up: every section, also an empty one, and names that are hostile."""

import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser

from holdfast.pipeline.report.figures import BrokerState, Figures, Series, Timeline, Totals, TrafficShare
from holdfast.pipeline.report.page import render_page

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
    text = render_page(Figures("Nothing", "/data", AT, Totals()))

    assert outline(text).sections == SECTIONS
    assert "No messages in this time." in text
    assert "Nothing was dropped, refused or ended." in text
    assert "Everybody has everything." in text


def test_names_of_topics_and_clients_are_only_text() -> None:
    evil = '<script>alert("1")</script>'
    share = TrafficShare(evil, 10, 100, 1, 1, AT)
    timeline = Timeline(AT, 60, 2, [Series(evil, {0: 4, 1: 6})])
    totals = Totals(10, 100, 1, 1, AT, AT + timedelta(seconds=90), (1, 2, 7), 3, 0)
    broker = BrokerState(1, 1, 1, 0, 0, [], 1, 5, [share])
    found = Figures(evil, evil, AT, totals, timeline, 1, [share], [share], [share], [share], broker=broker)

    tags = outline(render_page(found)).tags

    assert "script" not in tags
    assert tags.count("svg") == 1


def test_nothing_is_fetched_and_no_script_runs() -> None:
    text = render_page(Figures("Page", "/data", AT, Totals()))

    assert re.findall(r'(?:src|href)="([^"]*)"', text) == ["data:,"]
    assert "url(" not in text
    assert "@import" not in text
