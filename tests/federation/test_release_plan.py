"""What is promised and planned, before anything is spent."""

import pytest

from fedspca.federation.release_plan import Privacy, make_plan


def test_the_plan_is_chosen_by_size_and_predicts_its_error():
    small, large = make_plan(Privacy(1.0, 1e-6), 100), make_plan(Privacy(1.0, 1e-6), 10_000)
    assert (small.mechanism, large.mechanism) == ("gram", "product")
    products = make_plan(Privacy(1.0, 1e-6, mechanism="product"), 100)
    assert products.relative_noise > small.relative_noise
    assert small.cos2(rows=5000, variance=10.0, clip=10.0) > small.cos2(rows=500, variance=10.0, clip=10.0)
    assert "5000 rows" in str(make_plan(Privacy(1.0, 1e-6, expected_rows=5000), 100))


def test_settings_are_checked():
    with pytest.raises(ValueError, match="ε > 0"):
        Privacy(0.0, 1e-6)
    with pytest.raises(ValueError, match="mechanism"):
        Privacy(1.0, 1e-6, mechanism="magic")
    with pytest.raises(ValueError, match="no setting 'noise'"):
        Privacy.from_mapping({"epsilon": 1.0, "delta": 1e-6, "noise": 0})


def test_an_epsilon_beyond_accounting_is_refused_before_anything_is_spent():
    with pytest.raises(ValueError, match="smaller ε"):
        make_plan(Privacy(30.0, 1e-6), 4000)
