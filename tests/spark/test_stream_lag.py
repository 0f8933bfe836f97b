"""A stream that lags behind retention: what was dropped before it was read is an error, or a gap that is told."""

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from holdfast.history.reader.reader import HistoryReader
from holdfast.records.messages import decode_message
from tests.spark.publishers import Broker as Served
from tests.spark.stream_kills import Driver
from tests.spark.test_stream import Sink, numbered

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

LENIENT = {"failOnDataLoss": "false"}


@pytest.mark.parametrize("served", [False, True], ids=["path", "endpoint"])
def test_what_retention_took_from_a_stream_that_lags_is_an_error_or_a_gap_that_is_told(
    spark: SparkSession, tmp_path: Path, served: bool
) -> None:
    """L12"""
    with Served(tmp_path, "generation_bytes = 2097152\nretention_bytes = 4194304\n", served=served) as broker:
        sink = Sink(spark, broker, tmp_path)
        broker.publish(numbered(0, 50))
        sink.run()
        # RocksDB takes memory in blocks of 1 MiB: a generation of that size would end behind a few messages.
        # One generation after the other: one that is larger than retention allows would take the newest with it.
        for place in range(4):
            broker.publish(numbered(50 + 300 * place, 300, size=8_000))
            broker.process.wait_for("generation begins", place + 1)
        broker.process.wait_for("generation dropped")

        with pytest.raises(StreamingQueryException, match=r"retention dropped up to [0-9]+ messages of shard 0 before"):
            sink.run()

        broker.publish(numbered(1250, 20))
        lenient = Driver(tmp_path, "local[2]", {**broker.where, "columns": "topic,payload,serial", **LENIENT})
        lenient.start("finish")
        assert lenient.finish() == 0, lenient.log()[-6000:]
        # Nothing has come since, so what is there now was there to be read.
        with HistoryReader.open(broker.data) as log:
            there = [decode_message(value).message.payload for value in log.start_replay(log.parts()).records()]

    assert "history has a gap: retention dropped up to " in lenient.log()
    read, right = sink.payloads(), sorted(message.payload for message in broker.sent)
    assert len(set(read)) == len(read) < len(right)
    assert set(read) <= set(right)
    assert {message.payload for message in broker.sent[:50]} | set(there) <= set(read)
    assert there
