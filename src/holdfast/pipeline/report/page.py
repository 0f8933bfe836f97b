"""A report as one page of HTML: everything is in the file, nothing is fetched, and no script runs."""

from html import escape
from pathlib import Path
from typing import Final

from holdfast import __version__
from holdfast.pipeline.report import sections, words
from holdfast.pipeline.report.figures import Figures

_STYLE: Final = Path(__file__).with_name("style.css")
_SECTIONS: Final = (
    sections.header,
    sections.traffic_section,
    sections.pattern_section,
    sections.heaviest_section,
    sections.size_section,
    sections.hour_section,
    sections.silence_section,
    sections.dropped_section,
    sections.beside_section,
)


def page(found: Figures) -> str:
    style = _STYLE.read_text(encoding="utf-8")
    body = "\n".join(make(found) for make in _SECTIONS)
    made = (
        f"Made by Holdfast {escape(__version__)} on {words.moment(found.made)} UTC. "
        "All times are in UTC; sizes are those of payloads."
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        # Without an icon of its own a browser asks for one.
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
        f"<title>{escape(found.title)}</title><style>\n{style}</style></head>\n<body><main>\n"
        f"{body}\n<footer>{made}</footer>\n</main></body></html>\n"
    )
