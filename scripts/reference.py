"""Writes the generated pages of the documentation, from the tables that the code itself uses.

    python scripts/reference.py           write docs/reference/*.md
    python scripts/reference.py --check   fail if a page is not what the code says now

Pages: reason codes, properties, and which clauses of the standard are fulfilled and tested where.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

from holdfast.model.protocol import CLIENT, EITHER, PACKET_NAMES
from holdfast.model.reasons import REASONS
from holdfast.wire.properties import BINARY, FLAG, PAIR, PROPERTIES, TEXT, U16_VALUE, U32_VALUE, VARINT

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "reference"
NOTE = "<!-- Written by `make docs`; edit the code instead. -->\n\n"

KINDS = {
    FLAG: "byte, 0 or 1",
    U16_VALUE: "two-byte integer",
    U32_VALUE: "four-byte integer",
    VARINT: "variable byte integer",
    TEXT: "string",
    BINARY: "binary",
    PAIR: "pair of strings",
}

#: `v3` in front means a number of the 3.1.1 standard; without it, of 5.0.
CLAUSE = re.compile(r"(v3 )?\[?(MQTT-\d+(?:\.\d+)+-\d+)")


def packet_list(packets: tuple[int, ...]) -> str:
    return ", ".join(PACKET_NAMES[packet] for packet in sorted(packets, key=lambda packet: packet or 99))


def reason_page() -> str:
    rows = ["| code | name | in | meaning |", "|---|---|---|---|"]
    for row in REASONS:
        side = "" if row.disconnect_sender == EITHER else " (DISCONNECT: client)"
        if row.disconnect_sender not in (EITHER, CLIENT):
            side = " (DISCONNECT: server)"
        rows.append(f"| 0x{row.code:02X} | {row.name} | {packet_list(row.packets)}{side} | {row.meaning} |")
    return f"# Reason codes\n\n{NOTE}Codes from 0x80 on mean failure.\n\n" + "\n".join(rows) + "\n"


def property_page() -> str:
    rows = ["| id | name | type | in |", "|---|---|---|---|"]
    for spec in PROPERTIES:
        kind = KINDS[spec.kind] + (", not 0" if spec.nonzero else "")
        rows.append(f"| 0x{spec.identifier:02X} | `{spec.name}` | {kind} | {packet_list(spec.packets)} |")
    text = "Each stands at most once, except user properties, and subscription identifiers in PUBLISH.\n\n"
    return f"# Properties of MQTT 5\n\n{NOTE}{text}" + "\n".join(rows) + "\n"


def clauses_in(folder: str) -> dict[tuple[str, str], set[str]]:
    """(version, clause) → the files below `folder` that name it."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for path in sorted((ROOT / folder).rglob("*.py")):
        for version, clause in CLAUSE.findall(path.read_text(encoding="utf-8")):
            found["3.1.1" if version else "5.0", clause].add(path.relative_to(ROOT / folder).as_posix())
    return found


def clause_order(key: tuple[str, str]) -> tuple[str, list[int]]:
    return key[0], [int(number) for number in re.findall(r"\d+", key[1])]


def clause_page() -> str:
    code = clauses_in("src/holdfast")
    tests = clauses_in("tests")
    rows = ["| standard | clause | fulfilled in | tested in |", "|---|---|---|---|"]
    for key in sorted(code, key=clause_order):
        places = ", ".join(f"`{place}`" for place in sorted(code[key]))
        proofs = ", ".join(f"`{place}`" for place in sorted(tests.get(key, set())))
        rows.append(f"| {key[0]} | {key[1]} | {places} | {proofs} |")
    tested = len(code.keys() & tests.keys())
    text = f"The code names {len(code)} clauses, at the line that fulfils each; tests name {tested} of them.\n\n"
    return f"# Clauses of the standard\n\n{NOTE}{text}" + "\n".join(rows) + "\n"


def main(arguments: list[str]) -> int:
    pages = {"reason-codes.md": reason_page(), "properties.md": property_page(), "clauses.md": clause_page()}
    if arguments == ["--check"]:
        stale = [n for n, text in pages.items() if not (PAGES / n).exists() or (PAGES / n).read_text("utf-8") != text]
        if stale:
            print(f"out of date: {', '.join(stale)}; run: make docs", file=sys.stderr)
        return 1 if stale else 0
    PAGES.mkdir(parents=True, exist_ok=True)
    for name, text in pages.items():
        (PAGES / name).write_text(text, encoding="utf-8")
        print(f"docs/reference/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
