"""One child process: measures one section on the Holdfast that its PYTHONPATH leads to.

Prints a JSON line per value: {"key": …, "value": …}. Refuses to measure anything else than it was asked to,
because a stray import would compare a build with itself.

    python -m bench.codec.child <section> <form> [--quick]
"""

from __future__ import annotations

import argparse
import gc
import json
from importlib.machinery import EXTENSION_SUFFIXES
from types import ModuleType

from bench.codec import hot_loop, rows, variants
from bench.codec.measure_codec import measure_decode, measure_encode, measure_route
from bench.codec.measure_match import measure_match
from bench.codec.stopwatch import FULL, QUICK
from holdfast.topics import matcher


def is_library(module: ModuleType) -> bool:
    return (module.__file__ or "").endswith(tuple(EXTENSION_SUFFIXES))


def form_of_this_process() -> str:
    """Which variant this process really runs."""
    if not is_library(matcher):
        return variants.INTERPRETED
    return variants.GROUP if is_library(hot_loop) else variants.COMPILED


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("section", choices=rows.SECTIONS)
    parser.add_argument("form", choices=variants.FORMS)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    if form_of_this_process() != arguments.form:
        raise SystemExit(f"asked to measure {arguments.form}, but holdfast comes from {matcher.__file__}")
    gc.disable()  # see `stopwatch`
    effort = QUICK if arguments.quick else FULL
    measured = {
        rows.DECODE: lambda: measure_decode(effort),
        rows.ENCODE: lambda: measure_encode(effort),
        rows.ROUTE: lambda: measure_route(effort),
        rows.MATCH: lambda: measure_match(effort, rows.QUICK_SIZES if arguments.quick else rows.SIZES),
    }[arguments.section]()
    for key, value in measured:
        print(json.dumps({"key": key, "value": value}), flush=True)


if __name__ == "__main__":
    main()
