"""The pictures of a report, for any range of figures."""

import re
from datetime import UTC, datetime

import pytest

from holdfast.pipeline.report.charts import hour_chart, size_chart, timeline_chart
from holdfast.pipeline.report.figures import Series, Sizes, Timeline

AT = datetime(2026, 7, 1, 12, tzinfo=UTC)


def test_a_timeline_stacks_its_series_up_to_the_top() -> None:
    series = [Series("a/+", {0: 30, 2: 10}), Series("other topics", {0: 10})]
    text = timeline_chart(Timeline(AT, 3600, 3, series))

    rects = [(kind, float(tall)) for kind, tall in re.findall(r'<rect class="(\w+)".*? height="([\d.]+)"', text)]
    assert [kind for kind, _tall in rects] == ["c1", "c0", "c1"]
    assert rects[0][1] == pytest.approx(3 * rects[1][1], rel=0.01)
    assert sum(tall for _kind, tall in rects[:2]) == pytest.approx(254, abs=1)  # the whole height: 40 is a round number
    assert "2026-07-01 12:00:00 UTC, 1 h: 40 messages\na/+: 30\nother topics: 10" in text


@pytest.mark.parametrize("bins", [{0: 5}, {4: 1}, {0: 1, 21: 3}])
def test_sizes_of_any_range_have_a_picture(bins: dict[int, int]) -> None:
    text = size_chart(Sizes(bins, 0, 8, 1_500_000, 1_500_000))

    assert text.count("<title>") >= len(bins)
    assert "nan" not in text


def test_a_few_days_have_rows_of_their_own_and_many_are_shown_by_the_week() -> None:
    few = hour_chart({(20_000 + day, 5): 10 for day in (0, 1, 3)})
    many = hour_chart({(20_000 + day, hour): 7 for day in range(70) for hour in range(24)})

    assert few.count("<title>") == 4 * 24
    assert many.count("<title>") == 7 * 24
    assert "Mon, 00:00 to 01:00: 7 messages a week" in many
