"""The pure parts of the benchmark of the console: quantiles, stored days, what is installed, what a page loads."""

from __future__ import annotations

import random
from importlib.metadata import Distribution, PackageNotFoundError
from itertools import islice
from typing import cast

import pytest

from bench.console import footprint, past_data
from bench.console.many_clients import client_row
from bench.console.quantiles import bucket_quantile, quantile
from bench.console.topics import filters
from holdfast.model.time import DAY_S
from holdfast.topics.filters import parse_filter


def test_quantiles_of_few_values_are_the_largest() -> None:
    assert quantile([3.0, 1.0, 2.0], 0.99) == 3.0
    assert quantile([float(number) for number in range(100)], 0.5) == 50.0


@pytest.mark.parametrize(("after", "bound"), [((0, 0, 0), 0.0), ((5, 0, 0), 1.0), ((5, 1, 0), 2.0), ((0, 0, 1), 2.0)])
def test_the_longest_of_a_histogram_is_the_bound_of_its_last_bucket(after: tuple[int, ...], bound: float) -> None:
    assert bucket_quantile((0, 0, 0), after, (1.0, 2.0), 1.0) == bound


def test_what_was_in_a_histogram_before_does_not_count() -> None:
    assert bucket_quantile((2, 3, 1), (4, 3, 1), (1.0, 2.0), 1.0) == 1.0


def test_half_of_a_histogram_is_within_its_median() -> None:
    assert bucket_quantile((0, 0, 0), (3, 3, 1), (1.0, 2.0), 0.5) == 2.0
    assert bucket_quantile((0, 0, 0), (4, 3, 1), (1.0, 2.0), 0.5) == 1.0


@pytest.mark.parametrize("total", [1, 1000, 100_000])
def test_a_day_has_all_its_messages(total: int) -> None:
    assert sum(past_data.due(total, second) for second in range(DAY_S)) == total


def test_each_topic_speaks_once_a_minute_at_the_end_of_a_day() -> None:
    chance = random.Random(1)
    heard = [
        topic
        for second in range(DAY_S - 60, DAY_S)
        for topic in past_data.second_of_messages(second, chance, 10, 0, 77)
        if topic.startswith("minute/")
    ]

    assert len(heard) == len(set(heard)) == 77


def test_filters_that_are_counted_are_filters() -> None:
    found = list(islice(filters(), 40))

    assert all(parse_filter(text.encode()).wildcard for text in found)
    assert len(set(found)) > 10


def test_clients_of_the_stand_in_differ() -> None:
    rows = [client_row(number) for number in range(1000)]

    assert len({row.session_id for row in rows}) == len({(row.address, row.port) for row in rows}) == 1000
    assert sum(row.behind for row in rows) == 20


class _Installed:
    def __init__(self, requires: list[str]) -> None:
        self.requires = requires


def _find(name: str) -> Distribution:
    installed = {
        "starlette": ["anyio>=3", "httpx; extra == 'full'"],
        "uvicorn": ["click>=7", "h11"],
        "anyio": ["idna>=2.8"],
        "typer": ["Click>=8", "colorama; sys_platform == 'win32'"],
        "click": [],
        "h11": [],
        "idna": [],
    }
    if name not in installed:
        raise PackageNotFoundError(name)
    return cast("Distribution", _Installed(installed[name]))


def test_new_packages_are_those_that_nothing_else_needs() -> None:
    found = footprint.new_packages(["typer>=0.20", "starlette>=1.10,<2", "uvicorn"], _find)

    assert found == {"starlette", "uvicorn", "anyio", "idna", "h11"}


def test_a_page_loads_its_links_and_their_imports_and_nothing_that_comes_later() -> None:
    texts = {
        "/": '<script src="/static/app.js"></script> <a href="https://elsewhere/static/x.js">',
        "/static/app.js": 'import { a } from "./parts/a.js";\nconst later = () => import("./pages/later.js");',
        "/static/parts/a.js": 'import "../b.js";',
        "/static/b.js": "",
        "/static/pages/overview.js": 'export { a } from "../parts/a.js";',
    }

    assert footprint.page_files(texts.__getitem__) == set(texts)
