"""The parameters of a question about density: what is wrong is named, with what would be right."""

import pytest

from holdfast.history.past.density import DEFAULT_BUCKETS, DensityQuery, parse_density
from holdfast.history.past.questions import QuestionError

NOW_US = 1_700_000_000_000_000


def parse(**given: str | list[str]) -> DensityQuery:
    params = {name.rstrip("_"): [value] if isinstance(value, str) else value for name, value in given.items()}
    return parse_density(params, ("default", "audit"), NOW_US)


def test_without_parameters_everything_up_to_now_is_asked_for() -> None:
    assert parse() == DensityQuery((b"#",), 0, NOW_US, DEFAULT_BUCKETS, NOW_US, None)


def test_times_have_the_forms_of_a_replay() -> None:
    asked = parse(from_="-1h", to="-90s", filter="plant/+/temp", zone="audit", buckets="600")
    times = (NOW_US - 3_600_000_000, NOW_US - 90_000_000)
    assert asked == DensityQuery((b"plant", b"+", b"temp"), *times, 600, NOW_US, "audit")
    assert parse(from_="2023-11-14T22:13:19Z").from_us == NOW_US - 1_000_000
    assert parse(from_="17", to="18")[1:3] == (17, 18)


@pytest.mark.parametrize(
    ("given", "parameter", "words"),
    [
        ({"bucket": "3"}, "bucket", "there are: filter, zone, from, to, buckets"),
        ({"filter": ["a", "b"]}, "filter", "given 2 times"),
        ({"filter": "a/#/b"}, "filter", "at character 3"),
        ({"filter": "$share/g/a/+"}, "filter", r"write the filter alone: 'a/\+'"),
        ({"filter": "$replay/-1h/a"}, "filter", "write the filter alone"),
        ({"zone": "nowhere"}, "zone", "there are: audit, default"),
        ({"from": "yesterday"}, "from", "none of: earliest"),
        ({"to": "soon"}, "to", "none of: earliest"),
        ({"from": "10", "to": "10"}, "to", "a time behind that"),
        ({"from": "latest"}, "to", "a time behind that"),
        *[
            ({"buckets": wrong}, "buckets", "from 1 to 600")
            for wrong in ("0", "601", "-1", "x", "", "1e2", "²", "9" * 99)
        ],
    ],
)
def test_what_is_wrong_is_named(given: dict[str, str | list[str]], parameter: str, words: str) -> None:
    with pytest.raises(QuestionError, match=words) as caught:
        parse(**given)
    assert caught.value.parameter == parameter
