"""A declaration with everything in it, to be changed by tests."""

from pathlib import Path

WHOLE = """\
name = "plant"
state = "state/plant"

[source]
data = "holdfast-data"
topic = "plant/#"
since = "-7d"

[decode]
format = "json"
columns = [
  { name = "hall", level = 2 },
  { name = "celsius", path = "$.celsius", type = "double", required = true },
  { name = "seq", type = "bigint" },
]

[[rule]]
name = "plausible"
where = "celsius BETWEEN -40 AND 125"

[[rule]]
name = "indoors"
where = "hall <> 'yard'"
on_fail = "drop"

[deduplicate]
by = ["topic", "seq"]
within = "10m"

[[aggregate]]
name = "per_minute"
window = "1m"
by = ["hall"]
watermark = "30s"
measures = { readings = "count(*)", mean = "avg(celsius)" }

[[sink]]
kind = "delta"
of = "rows"
path = "lake/rows"

[[sink]]
kind = "publish"
of = "per_minute"
broker = "mqtt://127.0.0.1:1883"
topic = "stats/{hall}"
"""


def written(folder: Path, *changes: tuple[str, str], text: str = WHOLE) -> Path:
    """The file, with texts replaced."""
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    file = folder / "pipeline.toml"
    file.write_text(text, encoding="utf-8")
    return file


def line_of(what: str, text: str = WHOLE) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if what in line)
