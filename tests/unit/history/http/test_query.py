"""The query of `GET /history`: what is given, and what is wrong with it."""

import pytest

from holdfast.durable.log import NO_END
from holdfast.history.arrow.file_columns import FileFormat
from holdfast.history.arrow.file_writer import default_columns
from holdfast.history.http.query import parse_query
from holdfast.model.errors import PermanentError

NOW_US = 1_700_000_000_000_000


def test_without_parameters_it_asks_for_everything_as_json_lines() -> None:
    query = parse_query("", NOW_US)

    assert (query.levels, query.since_us, query.until_us) == ((b"#",), 0, NO_END)
    assert query.file_format is FileFormat.JSONL
    assert query.columns == default_columns(FileFormat.JSONL)
    assert (query.zone, query.limit) == (None, None)


def test_every_parameter_is_taken() -> None:
    query = parse_query("filter=plant/%2B&since=-1h&until=latest&format=csv&columns=ts,topic&zone=z&limit=7", NOW_US)

    assert query.levels == (b"plant", b"+")
    assert query.since_us == NOW_US - 3_600_000_000
    assert query.until_us == NOW_US
    assert (query.file_format, query.columns) == (FileFormat.CSV, ("ts", "topic"))
    assert (query.zone, query.limit) == ("z", 7)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("topic=a", "there is no parameter 'topic'; there are filter,"),
        ("zone=a&zone=b", "zone is given 2 times"),
        ("format=xml", "there is no format 'xml'"),
        ("since=soon", "since: "),
        ("since=latest&until=-1h", "is not before until"),
        ("limit=0", "limit is '0'"),
        ("limit=-1", "limit is '-1'"),
        ("filter=a/%23/b", "#"),
        ("columns=nothing", "nothing"),
    ],
)
def test_what_is_wrong_is_said(text: str, wrong: str) -> None:
    with pytest.raises(PermanentError, match=wrong):
        parse_query(text, NOW_US)
