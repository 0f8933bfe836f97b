"""Writes the generated pages of the documentation, from the tables that the code itself uses.

    python scripts/reference.py           write the pages
    python scripts/reference.py --check   fail if a page is not what the code says now

Pages: settings, metrics, reason codes, properties, which clauses of the standard are fulfilled and tested where, and
the runbook once more, beside the files of the console, which shows it where no documents are.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

from holdfast.control.metrics import ANSWER_BOUNDS, BROKER_METRICS, CONSOLE_METRICS, DURATION_BOUNDS, MESSAGE_BOUNDS
from holdfast.model.protocol import CLIENT, EITHER, PACKET_NAMES
from holdfast.model.reasons import REASONS
from holdfast.node.settings.tree import SECTIONS, TABLES, TREE
from holdfast.node.settings.values import KeySpec, describe_expected, format_toml, keys_of
from holdfast.wire.properties import BINARY, FLAG, PAIR, PROPERTIES, TEXT, U16_VALUE, U32_VALUE, VARINT

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
#: From the documents to the files of the console.
SHOWN_RUNBOOK = "../src/holdfast/console/static/runbook.md"
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


METRICS_INTRODUCTION = """\
`/metrics` of the console has these with `holdfast_` in front, `holdfast status --json` those of the broker without. A
number that a broker does not have is left out: those of the disk without a data folder, those of external queues
without a backend, those of the history process while it does not run, and `commit_seconds` and `commit_messages` in a
cluster.
"""


def metric_page() -> str:
    seconds, messages, answers = (
        " · ".join(f"{bound:g}" for bound in bounds) for bounds in (DURATION_BOUNDS, MESSAGE_BOUNDS, ANSWER_BOUNDS)
    )
    text = (
        f"{METRICS_INTRODUCTION}\nBuckets of seconds: {seconds}.\nBuckets of messages: {messages}.\n"
        f"Buckets of `console_request_seconds`: {answers}.\n"
    )
    parts = [f"# Metrics\n\n{NOTE}{text}"]
    for title, metrics in (("Of the broker", BROKER_METRICS), ("Of the console", CONSOLE_METRICS)):
        rows = ["| metric | kind | labels | meaning |", "|---|---|---|---|"]
        rows += [
            f"| `{one.name}` | {one.kind} | {', '.join(f'`{label}`' for label in one.labels)} | {one.help} |"
            for one in metrics
        ]
        parts.append(f"\n## {title}\n\n" + "\n".join(rows) + "\n")
    return "".join(parts)


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


SETTINGS_INTRODUCTION = """\
Every key has a default; `holdfast serve` runs without any file. What is set comes from, the last one winning:

1. `holdfast.toml` in the folder where the broker starts, or the file that `--config` names.
2. Environment variables: `HOLDFAST__MQTT__MAX_QOS=1`, `HOLDFAST__LISTENERS__DEFAULT__PORT=1884`. Two underscores stand
   between section and key; a variable that has the words of a key and other underscores is refused.
3. `--set mqtt.max_qos=1`, as often as needed, and `--host`, `--port` (of the listener called `default`) and `--data`.

Values of variables and flags are read as TOML, otherwise as text. An empty value unsets a key that may be
unset. Paths are relative to the folder where the broker starts.

`holdfast config check` reports all errors at once: where, what, and what would be right.
`holdfast config show` prints every value with its source.

On SIGHUP the broker reads all sources again. Keys with "yes" under "reload" change at once, or for new connections;
the others keep their value, and the log lists them as in need of a restart.
"""

EXAMPLE = """\
[listeners.local]
host = "127.0.0.1"

[listeners.secure]
kind = "tls"
host = "0.0.0.0"
certificate = "server.pem"
key = "server.key"
max_connections = 5000

[listeners.browsers]
kind = "wss"
host = "0.0.0.0"
certificate = "server.pem"
key = "server.key"
mount_point = "web/"

[mqtt]
max_packet_size = 262144
max_session_expiry_s = 604800

[limits]
connect_rate = 50

[sessions]
max_queued_messages = 50000
share_strategy = "round_robin"

[security]
password_file = "holdfast.passwd"
acl_file = "holdfast.acl"

[storage]
data = "data"
retention_s = 86400

[zones.machines]
filter = "plant/+/press/#"
shards = 2
retention_s = 2592000
retention_bytes = 50_000_000_000

[zones.video]
filter = "cameras/#"
durability = "os"
retention_s = 3600

[log]
level = "warning"
"""


#: What there is without any table of a section of tables.
WITHOUT_ANY = {
    "listeners": "Without any, there is one called `default`, with the defaults below.\n\n",
    "zones": "Without any, `[storage]` rules for all topics. See the [guide to storage](guide/storage.md).\n\n",
}


def settings_rows(specs: list[KeySpec]) -> str:
    rows = ["| key | value | default | reload | meaning |", "|---|---|---|---|---|"]
    for spec in specs:
        default = "not set" if spec.default is None else f"`{format_toml(spec.default)}`"
        live = "yes" if spec.note.live else ""
        rows.append(f"| `{spec.name}` | {describe_expected(spec)} | {default} | {live} | {spec.note.meaning} |")
    return "\n".join(rows) + "\n"


def settings_page() -> str:
    parts = [f"# Settings\n\n{NOTE}{SETTINGS_INTRODUCTION}"]
    for name in TREE:
        section = SECTIONS[name] if name in SECTIONS else TABLES[name].table
        title = name if name in SECTIONS else f"{name}.NAME"
        text = f"{section.__doc__}\n\n{WITHOUT_ANY.get(name, '')}"
        parts.append(f"## `[{title}]`\n\n{text}{settings_rows(list(keys_of(section).values()))}")
    parts.append(f"## An example\n\n```toml\n{EXAMPLE}```\n")
    return "\n".join(parts)


def main(arguments: list[str]) -> int:
    pages = {
        "settings.md": settings_page(),
        "reference/metrics.md": metric_page(),
        "reference/reason-codes.md": reason_page(),
        "reference/properties.md": property_page(),
        "reference/clauses.md": clause_page(),
        SHOWN_RUNBOOK: (DOCS / "runbook.md").read_text("utf-8"),
    }
    if arguments == ["--check"]:
        stale = [n for n, text in pages.items() if not (DOCS / n).exists() or (DOCS / n).read_text("utf-8") != text]
        if stale:
            print(f"out of date: {', '.join(stale)}; run: make docs", file=sys.stderr)
        return 1 if stale else 0
    for name, text in pages.items():
        (DOCS / name).parent.mkdir(parents=True, exist_ok=True)
        (DOCS / name).write_text(text, encoding="utf-8")
        print(f"docs/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
