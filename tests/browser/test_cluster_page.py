"""The page of the cluster: what this node knows of the others, and who took over from whom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.browsing import Console, expect
from tests.browser.stand_in_cluster import CLUSTER

pytestmark = [pytest.mark.slow, pytest.mark.browser]


def panel(page: Any, title: str) -> Any:
    return page.locator("section.panel").filter(has=page.get_by_role("heading", name=title, exact=True))


def test_nodes_vnodes_leaders_lag_and_digests_are_shown(console: Console, open_page: Callable[..., Any]) -> None:
    console.stand_in.cluster = CLUSTER
    page = open_page("/")
    page.get_by_role("link", name="Cluster").click()
    nodes = panel(page, "Nodes").locator("tbody tr")
    expect(nodes).to_have_count(3)
    expect(nodes.nth(0)).to_contain_text("this node")
    expect(nodes.nth(1)).to_contain_text("live, ready")
    expect(nodes.nth(2)).to_contain_text("14 s behind in vnode 5")
    expect(page.get_by_role("alert")).to_contain_text("node 3 is not ready")
    vnodes = panel(page, "Vnodes").locator("tbody tr")
    expect(vnodes).to_have_count(len(CLUSTER.last))
    cells = vnodes.nth(2).locator("td")
    expect(cells.nth(1)).to_have_text("3")
    expect(cells.nth(4)).to_contain_text("equal at 480,256")
    expect(cells.nth(5)).to_contain_text("differs at 480,256")
    expect(vnodes.nth(5).locator("td").nth(5)).to_contain_text("14 s behind")
    expect(vnodes.nth(7).locator("td").nth(1)).to_have_text("none")
    happy = panel(page, "Channel registry").locator("tr", has_text="happy_ending").locator("td")
    expect(happy).to_have_text(["happy_ending", "registered at the first try", "9,001", "9,002", "9,003"])


def test_takeovers_of_all_and_of_one_client(console: Console, open_page: Callable[..., Any]) -> None:
    console.stand_in.cluster = CLUSTER
    page = open_page("/cluster")
    rows = panel(page, "Takeovers").locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("registered, in place of connection 40 of node 1")
    expect(rows.nth(1)).to_contain_text("refused, because of connection 18 of node 2")
    page.get_by_role("textbox", name="Client").fill("press-00004")
    expect(rows.nth(1)).to_contain_text("registered")
    assert page.url.endswith("/cluster?client=press-00004")
    # From the page of a client, one click leads there.
    page.goto("/clients/press-00004")
    page.get_by_role("link", name="Its last connections, in the cluster").click()
    expect(page.get_by_role("textbox", name="Client")).to_have_value("press-00004")
    expect(rows).to_have_count(2)


def test_a_single_node_has_no_cluster_page(open_page: Callable[..., Any]) -> None:
    page = open_page("/")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    expect(page.get_by_role("link", name="Cluster")).to_have_count(0)
    page.watch.allow("404")
    page.goto("/cluster")
    expect(page.get_by_text("This node is not part of a cluster.")).to_be_visible()
