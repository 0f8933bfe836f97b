"""The variants that are compared: the same code in up to three forms.

interpreted    the sources, as they are
compiled       the modules in .compiled, called from interpreted loops: what a caller outside the
               compiled group sees
group          the same modules and the loops of the benchmark, compiled together: what code inside
               the group sees, and so what the broker's path of a message will cost
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.checkout import ROOT, compiled_obstacle, compiled_tree
from bench.codec import group_build

INTERPRETED = "interpreted"
COMPILED = "compiled"
GROUP = "group"
FORMS = (INTERPRETED, COMPILED, GROUP)


@dataclass(frozen=True)
class Variant:
    form: str
    #: Where the child starts: `bench` is imported from there.
    folder: Path
    #: Where the child finds `holdfast`.
    tree: Path

    def command(self, section: str, *, quick: bool) -> list[str]:
        command = [sys.executable, "-m", "bench.codec.child", section, self.form]
        return [*command, "--quick"] if quick else command

    def environment(self) -> dict[str, str]:
        # A fixed hash seed: the layout of dictionaries would otherwise differ from run to run.
        return {**os.environ, "PYTHONPATH": str(self.tree), "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}


@dataclass(frozen=True)
class Offer:
    """What can be compared here, and why the rest cannot."""

    variants: tuple[Variant, ...]
    missing: tuple[str, ...]


def available(*, with_group: bool) -> Offer:
    """The variants of this checkout; builds the group if it is wanted and not there yet."""
    variants = [Variant(INTERPRETED, ROOT, ROOT / "src")]
    obstacle = compiled_obstacle(ROOT)
    if obstacle:
        return Offer(tuple(variants), (f"only interpreted: {obstacle}",))
    variants.append(Variant(COMPILED, ROOT, compiled_tree()))
    if not with_group:
        return Offer(tuple(variants), ())
    try:
        tree = group_build.build(ROOT)
    except subprocess.CalledProcessError:
        log = group_build.log_path(ROOT).relative_to(ROOT)
        return Offer(tuple(variants), (f"no group column: the loops did not compile (details: {log})",))
    variants.append(Variant(GROUP, tree, tree))
    return Offer(tuple(variants), ())
