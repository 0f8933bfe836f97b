"""The page of measured figures: each benchmark renews its own part, between two marks."""

from __future__ import annotations

from pathlib import Path

DOCUMENT = Path("docs/benchmarks.md")
PICTURES = Path("docs/benchmarks")


def renew(root: Path, name: str, measured: str, picture: str) -> None:
    """Put `measured` between the marks of `name`, and replace its picture."""
    (root / PICTURES).mkdir(parents=True, exist_ok=True)
    (root / PICTURES / f"{name}.svg").write_text(picture, encoding="utf-8")
    document = root / DOCUMENT
    text = document.read_text(encoding="utf-8")
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise SystemExit(f"{DOCUMENT} has no place for the figures: {begin} … {end}")
    document.write_text(f"{before}{begin}\n\n{measured}\n{end}{after}", encoding="utf-8")
