from numbers import Integral, Real

import numpy as np
import pytest
from sklearn.utils._param_validation import Interval, StrOptions

from fedspca import FSSPCA, ExactSPCA
from fedspca.estimators.parameters import in_words


@pytest.mark.parametrize(
    ("allowed", "told"),
    [
        ([Interval(Integral, 1, None, closed="left")], "a whole number of at least 1"),
        ([Interval(Real, 0, 1, closed="right"), None], "a number above 0 and at most 1"),
        ([Interval(Real, None, 3, closed="neither")], "a number below 3"),
        ([StrOptions({"b", "a", "c"})], "'a', 'b' or 'c'"),
        (
            [Interval(Integral, 1, None, closed="left"), "array-like", StrOptions({"auto"}), None],
            "a whole number of at least 1, a list with one for each component or 'auto'",
        ),
        (["random_state", np.random.Generator], "a seed, which is a whole number from 0 to 4294967295"),
        ([Integral, None], "a whole number"),
    ],
)
def test_what_is_allowed_is_said_in_words(allowed, told):
    assert in_words(allowed) == told


@pytest.mark.parametrize("estimator", [ExactSPCA(), FSSPCA(lam1=1.0, lam2=1.0)])
def test_no_parameter_is_described_as_to_a_programmer(estimator):
    for name, allowed in estimator._parameter_constraints.items():
        if name == "callbacks":
            continue
        made = type(estimator)(**{**estimator.get_params(), name: object()})
        with pytest.raises(ValueError, match=f"The '{name}' parameter of {type(made).__name__} must be") as told:
            made._validate_params()
        assert in_words(allowed)
        words = str(told.value).split(" Got ")[0]
        assert not any(word in words for word in ("[", "inf", "array-like", "numpy", "None", " int ", " float "))
