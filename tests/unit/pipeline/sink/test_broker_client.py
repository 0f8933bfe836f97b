"""The MQTT client of a task of Spark: what is missing on a worker is named by its option."""

import pytest

from holdfast.client.errors import RefusedError
from holdfast.pipeline.sink.broker_client import open_client
from holdfast.pipeline.sink.write_options import parse_write_options


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"user": "u", "passwordEnv": "NOT_SET"}, "option passwordEnv NOT_SET: there is no such variable"),
        ({"user": "u", "passwordFile": "/nowhere"}, "option passwordFile /nowhere: No such file"),
        ({"caFile": "/nowhere"}, "option caFile /nowhere: No such file"),
        ({"certFile": "/nowhere"}, "option certFile /nowhere: No such file"),
    ],
)
def test_a_missing_file_or_variable_is_named_by_its_option(options: dict[str, str], text: str) -> None:
    with pytest.raises(RefusedError, match=f"{text}.*it has to be on every worker"):
        open_client(parse_write_options({"broker": "mqtts://host", **options}), "c")
