"""This checkout: where it lies, and whether its compiled modules can be measured."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def compiled_tree(root: Path = ROOT) -> Path:
    return root / ".compiled"


def compiled_obstacle(root: Path) -> str | None:
    """Why the compiled modules cannot be measured."""
    tree = compiled_tree(root)
    note = tree / "NOT_COMPILED"
    if note.exists():
        return f"the compiled tree is plain Python ({note.read_text(encoding='utf-8').strip()})"
    if not tree.exists():
        return "there is no .compiled; run: make compiled"
    sources = root / "src"
    for path in sources.glob("holdfast/**/*.py"):
        copy = tree / path.relative_to(sources)
        if not copy.exists() or copy.read_bytes() != path.read_bytes():
            return f".compiled is out of date ({path.relative_to(sources)}); run: make compiled"
    return None
