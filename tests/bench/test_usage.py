"""What the benchmarks say of processor time is exact enough for the shortest of them."""

from __future__ import annotations

import os
import time

from bench.brokers.usage import Usage


def test_processor_time_of_a_millisecond_is_counted() -> None:
    usage = Usage([os.getpid()], alone=True)
    began_s, before_s = time.process_time(), usage.cpu_s()

    while time.process_time() - began_s < 0.001:
        pass

    assert 0.0005 < usage.cpu_s() - before_s < 5.0
