"""The examples of the guide to Spark, as they stand there, on the history of a real broker."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.docs.test_examples import ROOT, examples_in
from tests.spark.publishers import Broker, Sent

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_the_examples_of_the_guide_run(
    spark: SparkSession, broker: Broker, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    broker.publish(Sent(f"factory/{number % 4}/temperature", b"%d" % number) for number in range(40))
    examples = [example for example in examples_in(ROOT / "docs/guide/spark.md") if example.language == "python"]

    for example in examples:
        # Java stays in the folder that it was started in, so its paths are made absolute.
        text = example.text.replace("/var/lib/holdfast", str(broker.data)).replace('"copy/', f'"{tmp_path}/copy/')
        exec(text, {})

    shown = capfd.readouterr().out
    assert len(examples) == 3
    assert "|factory/3/temperature|10   |" in shown
    assert "|   device|      40|" in shown
    assert spark.read.parquet(str(tmp_path / "copy/data")).count() == 40
