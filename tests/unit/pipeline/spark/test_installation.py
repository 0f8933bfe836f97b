"""The name of a folder in the start cache changes with what is installed, and with nothing else."""

import os
from pathlib import Path

import pytest

from holdfast.pipeline.spark.installation import SparkInstallation
from tests.unit.pipeline.spark.cache_world import java_in, pyspark_in


def test_another_java_has_a_folder_of_its_own_and_a_replaced_one_too(tmp_path: Path, java: Path) -> None:
    keys = {SparkInstallation.find(java).key, SparkInstallation.find(java_in(tmp_path / "other")).key}
    os.utime(java / "lib" / "server" / "libjvm.so", (1, 1))
    keys.add(SparkInstallation.find(java).key)

    assert len(keys) == 3
    assert all("java17.0.99" in key for key in keys)


def test_the_key_outlives_the_push_and_pull_of_an_image(tmp_path: Path, java: Path) -> None:
    """Its layers have times in whole seconds, and folders have other sizes on another file system."""
    pyspark = pyspark_in(tmp_path / "pyspark")
    files = [path for root in (java, pyspark) for path in (root, *root.rglob("*"))]
    for path in files:
        os.utime(path, ns=(1_700_000_000_123_456_789,) * 2)
    before = SparkInstallation.find(java, pyspark)
    for path in files:
        os.utime(path, (1_700_000_000,) * 2)

    assert SparkInstallation.find(java, pyspark).key == before.key
    assert before.is_there


@pytest.mark.parametrize("name", ["jars/spark-core.jar", "jars/another.jar", "version.py"])
def test_a_replaced_pyspark_has_another_key_though_its_times_are_the_same(
    tmp_path: Path, java: Path, name: str
) -> None:
    pyspark = pyspark_in(tmp_path / "pyspark")
    times = (1_700_000_000,) * 2
    for path in (pyspark, *pyspark.rglob("*")):
        os.utime(path, times)
    before = SparkInstallation.find(java, pyspark)
    (pyspark / name).write_bytes(b"of another version")
    for path in (pyspark, *pyspark.rglob("*")):
        os.utime(path, times)

    assert SparkInstallation.find(java, pyspark).key != before.key
    assert not before.is_there
