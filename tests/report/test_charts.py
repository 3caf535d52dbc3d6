import pytest

from fedspca.report.charts import ticks


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3, 7), (1e-9, 2e-9), (-1e6, 1e6), (5, 5)])
def test_ticks_are_few_round_and_within(low, high):
    marks = ticks(low, high)
    assert 1 <= len(marks) <= 8
    assert all(low - 1e-12 <= mark <= high + 1e-12 for mark in marks)
