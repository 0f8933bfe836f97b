"""`holdfast spark report` on a running broker, opened in a real browser: every section shows its numbers."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from holdfast.cli.main import app
from tests.spark.browser import Browser
from tests.spark.lakes import archive_some
from tests.spark.plant import GROUP, MESSAGES, OFFLINE, Plant

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


class Shown:
    """The page as a browser shows it."""

    def __init__(self, browser: Browser, page: Path, summary: dict[str, object]) -> None:
        self.browser = browser
        self.page = page
        self.summary = summary
        browser.open(page)
        self.texts: dict[str, str] = browser.ask(
            "Object.fromEntries([...document.querySelectorAll('section')].map(one => [one.id, one.innerText]))"
        )
        self.top: str = browser.ask("document.querySelector('.tiles').innerText")

    def cells(self, section: str, table: int = 0) -> dict[str, list[str]]:
        """The rows of a table by their first cell."""
        rows: list[list[str]] = self.browser.ask(
            f"[...document.querySelectorAll('#{section} table')[{table}].tBodies[0].rows]"
            ".map(row => [...row.cells].map(cell => cell.innerText.trim()))"
        )
        return {row[0]: row[1:] for row in rows}


@pytest.fixture(scope="module")
def shown(spark: SparkSession, plant: Plant, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    folder = tmp_path_factory.mktemp("report")
    page = folder / "report.html"
    words = ["spark", "report", "--data", str(plant.data), "-o", str(page), "--title", "Plant <North>", "--json"]
    made = CliRunner().invoke(app, words)
    assert made.exit_code == 0, made.output
    with Browser(folder) as browser:
        yield Shown(browser, page, json.loads(made.stdout))


def test_the_page_is_whole_in_itself_and_the_browser_has_no_complaint(shown: Shown) -> None:
    assert shown.summary["messages"] == MESSAGES
    assert shown.summary["bytes"] == shown.page.stat().st_size
    assert shown.browser.complaints == []
    assert {url.split(":")[0] for url in shown.browser.fetched} <= {"file", "data", "about"}
    assert shown.browser.ask("document.title") == "Plant <North>"
    assert shown.browser.ask("document.querySelectorAll('script').length") == 0


def test_the_totals_are_those_of_the_publishers(shown: Shown, plant: Plant) -> None:
    lines = shown.top.split("\n")
    topics = {message.topic for message in plant.sent}
    size_kb = sum(len(message.payload) for message in plant.sent) / 1000

    assert lines[lines.index("Messages") + 1] == f"{MESSAGES}"
    assert lines[lines.index("Topics") + 1] == f"{len(topics)}"
    assert lines[lines.index("Publishers") + 1] == "10"
    assert lines[lines.index("Payload") + 1] == f"{size_kb:.1f} kB"


def test_every_section_shows_its_numbers(shown: Shown, plant: Plant) -> None:
    by_client = Counter(message.client_id for message in plant.sent)
    by_topic = Counter(message.topic for message in plant.sent)
    patterns = shown.cells("patterns")
    publishers, topics = shown.cells("heaviest", 1), shown.cells("heaviest", 0)
    retained = {message.topic for message in plant.sent if message.retain}

    assert sum(int(row[2].replace(",", "")) for row in patterns.values()) == MESSAGES
    assert set(patterns) == {"plant/+/temp", "plant/+/flow", "press/+/flow"}
    assert patterns["plant/+/temp"][:4] == ["20", "10", "300", "33.3 %"]
    assert {name: int(row[0]) for name, row in publishers.items()} == dict(by_client)
    assert all(int(row[0]) == by_topic[name] for name, row in topics.items())
    assert len(topics) == 15
    assert "QoS 1 100.0 %" in shown.texts["traffic"]
    assert "press 33.3 %" in shown.texts["traffic"]
    assert "Half of all payloads have" in shown.texts["sizes"]
    assert "The busiest hour had" in shown.texts["hours"]
    assert {name: row[0] for name, row in shown.cells("silences").items()} == {
        name: str(count) for name, count in by_client.items()
    }
    assert "Nothing was dropped, refused or ended." in shown.texts["dropped"]
    assert set(shown.cells("sessions", 0)) == {OFFLINE, GROUP}
    assert {name: row[0] for name, row in shown.cells("sessions", 1).items()} == {"plant/…": str(len(retained))}


def test_pictures_show_what_the_tables_say(shown: Shown) -> None:
    titles: list[str] = shown.browser.ask(
        "[...document.querySelectorAll('#traffic svg title')].map(t => t.textContent)"
    )
    hours: list[str] = shown.browser.ask("[...document.querySelectorAll('#hours svg title')].map(t => t.textContent)")
    sizes: list[str] = shown.browser.ask("[...document.querySelectorAll('#sizes svg title')].map(t => t.textContent)")

    assert sum(int(title.split(": ")[1].split(" ")[0].replace(",", "")) for title in titles) == MESSAGES
    assert sum(int(title.split(": ")[-1].split(" ")[0].replace(",", "")) for title in hours) == MESSAGES
    assert sum(int(title.split(": ")[1].split(" ")[0].replace(",", "")) for title in sizes) == MESSAGES


def test_with_a_lake_the_page_is_about_hot_and_cold_together(spark: SparkSession, plant: Plant, tmp_path: Path) -> None:
    archive_some(spark, plant, tmp_path / "lake", 500)
    page = tmp_path / "report.html"

    lake = ["--lake", str(tmp_path / "lake"), "--topic", "plant/+/temp"]
    made = CliRunner().invoke(app, ["spark", "report", "--data", str(plant.data), "-o", str(page), *lake, "--json"])

    assert made.exit_code == 0, made.output
    topics = {message.topic for message in plant.sent if message.topic.endswith("/temp")}
    summary = json.loads(made.stdout)
    assert (summary["messages"], summary["topics"]) == (MESSAGES // 3, len(topics))


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_is_readable_in_light_and_dark_and_on_a_phone(shown: Shown, dark: bool) -> None:
    contrast = """(() => {
        const light = text => {
            const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3).map(n => n / 255)
                .map(n => n <= 0.04045 ? n / 12.92 : ((n + 0.055) / 1.055) ** 2.4);
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const of = (one, key) => light(getComputedStyle(document.querySelector(one))[key]);
        const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        const card = of('section', 'backgroundColor');
        return [['td', 'color'], ['.note', 'color'], ['th', 'color'], ['svg .t', 'fill'], ['svg .faint', 'fill']]
            .map(([one, key]) => ratio(of(one, key), card)).concat([card]);
    })()"""
    for width in (1160, 390):
        shown.browser.open(shown.page, dark=dark, width=width)
        *ratios, card = shown.browser.ask(contrast)
        # What WCAG asks of a text.
        assert min(ratios) >= 4.5
        assert (card < 0.1) is dark
        assert shown.browser.ask("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--data", "/nowhere", "-o", "{folder}/a.html"), "--data /nowhere: this is no data folder"),
        (("--data", "{data}", "-o", "{folder}/no/a.html"), "name a file in a folder that is there"),
        (("--data", "{data}", "-o", "{folder}/a.html", "--since", "lately"), "--since: "),
        (("--data", "{data}", "-o", "{folder}/a.html", "--topic", "a/#/b"), "--topic: "),
        (("--endpoint", "http://host:1", "-o", "{folder}/a.html"), "give grpc://HOST:PORT"),
    ],
)
def test_wrong_usage_is_told_before_spark_starts(
    plant: Plant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], told: str
) -> None:
    monkeypatch.setattr("holdfast.pipeline.report.job.run_report", lambda *_given: pytest.fail("Spark was started"))
    given = [word.format(data=plant.data, folder=tmp_path) for word in words]

    found = CliRunner().invoke(app, ["spark", "report", *given])

    assert found.exit_code == 2
    assert told in found.stderr
    assert list(tmp_path.iterdir()) == []
