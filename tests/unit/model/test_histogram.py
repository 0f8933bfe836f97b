"""Histograms as they are counted."""

import pytest

from holdfast.model.histogram import HistogramCounts


@pytest.mark.compiled
def test_a_value_counts_in_the_bucket_of_the_first_bound_that_it_does_not_exceed() -> None:
    histogram = HistogramCounts((1.0, 2.0))
    for value in (0, 1, 1.5, 2.0, 2.5, 100):
        histogram.add(value)
    assert histogram.counts == [2, 2, 2]
    assert histogram.sum == 107.0
