"""The page about settings: made from the tree, with an example that works."""

from pathlib import Path

import pytest

from holdfast.node.settings.loader import load
from holdfast.node.settings.sources import Flags
from holdfast.node.settings.tree import SECTIONS, TABLES
from holdfast.node.settings.values import keys_of
from scripts.reference import settings_page

PAGE = Path(__file__).resolve().parents[2] / "docs" / "settings.md"


def test_the_page_is_what_the_code_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == settings_page(), "run: make docs"


def test_the_page_has_a_row_for_every_key() -> None:
    text = settings_page()
    for section in (*SECTIONS.values(), *(tables.table for tables in TABLES.values())):
        for name in keys_of(section):
            assert f"\n| `{name}` | " in text


def test_the_example_of_the_page_loads_and_keeps_the_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    example = PAGE.read_text(encoding="utf-8").split("```toml\n")[1].split("```")[0]
    for name in ("server.pem", "server.key", "holdfast.passwd", "holdfast.acl"):
        (tmp_path / name).touch()
    (tmp_path / "holdfast.toml").write_text(example, encoding="utf-8")
    settings = load(Flags(), {})
    ports = {name: (listener.kind, listener.port) for name, listener in settings.listeners.items()}
    assert ports == {"local": ("tcp", 1883), "secure": ("tls", 8883), "browsers": ("wss", 8084)}
    assert settings.sessions.share_strategy == "round_robin"
    assert list(settings.zones) == ["machines", "video"]
