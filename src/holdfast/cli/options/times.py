"""Times on the command line, in the forms of replays: earliest, latest, ISO 8601, Unix µs, -2h."""

import time
from fractions import Fraction

from holdfast.cli.commands import exit_on, fail
from holdfast.model.errors import PeerError
from holdfast.model.time import SECOND_US
from holdfast.topics.since import MAX_US, parse_since


def parse_time_span(from_option: str, since: str, until_option: str, until: str | None) -> tuple[int, int | None]:
    """Start and end in µs. Prints an error and exits if one is wrong, or the end is not after the start."""
    now_us = int(time.time() * SECOND_US)
    from_us = _time_of(from_option, since, now_us)
    if until is None:
        return from_us, None
    until_us = _time_of(until_option, until, now_us)
    if from_us >= until_us:
        fail(f"{from_option} {since} is not before {until_option} {until}")
    return from_us, until_us


def _time_of(option: str, text: str, now_us: int) -> int:
    with exit_on(PeerError, named=option):
        return parse_since(text).resolve(now_us)


def parse_expiry(text: str) -> int:
    """The time of --expires in µs: a duration from now, or a moment. Prints an error and exits if it is wrong."""
    now_us = int(time.time() * SECOND_US)
    is_duration = text[-1:] in ("s", "m", "h", "d", "w") and text[:-1].isdigit()
    try:
        parsed = parse_since(f"-{text}" if is_duration else text)
    except PeerError:
        fail(f"--expires {text} is neither a duration such as 30d nor a time such as 2027-01-01")
    at_us = now_us + parsed.ago_us if is_duration else parsed.at_us
    if at_us <= now_us:
        fail(f"--expires {text} has passed already; give a time ahead of now")
    return min(at_us, MAX_US)


def parse_speed_option(text: str) -> Fraction | None:
    """A factor of the original speed; None is as fast as possible. Prints an error and exits if it is wrong."""
    if text == "max":
        return None
    try:
        speed = Fraction(text)
    except (ValueError, ZeroDivisionError):
        speed = Fraction(0)
    if speed <= 0:
        fail(f"--speed {text}: write max, or a number above 0 such as 1, 10 or 0.5")
    return speed
