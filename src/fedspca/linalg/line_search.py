"""Step sizes along a curve θ ↦ φ(θ): Armijo's condition by backtracking, the strong Wolfe conditions by scipy."""

import warnings
from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
LineSearch = Literal["armijo", "wolfe"]
Curve = Callable[[float], tuple[float, float]]  # θ -> φ(θ), φ'(θ)

SUFFICIENT_DECREASE = 1e-4  # c1
CURVATURE = 0.9  # c2
ROUNDING = 64 * np.finfo(float).eps  # of φ, relative: near a minimum a good step may seem to increase φ by this much


def armijo(value: Callable[[float], float], value0: float, slope0: float, start: float) -> float:
    """Find θ with φ(θ) ≤ φ(0) + c1 θ φ'(0), halving from ``start``; 0 if rounding hides any descent."""
    theta, slack = start, ROUNDING * abs(value0)
    for _ in range(60):
        if value(theta) <= value0 + SUFFICIENT_DECREASE * theta * slope0 + slack:
            return theta
        theta /= 2
        if -theta * slope0 <= slack:  # no shorter step can be told from none
            return 0.0
    return 0.0


def strong_wolfe(curve: Curve, value0: float, slope0: float, start: float) -> float:
    """Find θ with Armijo's condition and |φ'(θ)| ≤ c2 |φ'(0)|; falls back on Armijo's alone.

    The line search of scipy needs a function of one variable: here φ as a function of the step θ along the curve. Steps
    are measured in units of ``start``, since scipy tries the unit step first. If the unit step satisfies the
    conditions, up to the rounding of φ, scipy is not called: the slope then still tells a good step from a bad one
    (Hager and Zhang 2005, A new conjugate gradient method with guaranteed descent and an efficient line search).
    """
    first, slope1 = curve(start)
    least = value0 + SUFFICIENT_DECREASE * start * slope0 + ROUNDING * abs(value0)
    if first <= least and abs(slope1) <= -CURVATURE * slope0:
        return start
    seen = {start: (first, slope1)}

    def at(scaled: Array) -> tuple[float, float]:
        theta = float(scaled[0]) * start
        if theta not in seen:
            seen[theta] = curve(theta)
        return seen[theta]

    def value(scaled: Array) -> float:
        return at(scaled)[0]

    def slope(scaled: Array) -> Array:
        return np.array([at(scaled)[1] * start])

    from scipy.optimize import line_search  # here: its import takes longer than a command of a site or a study should

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scipy warns when it finds no step; the fallback handles this case
        found = line_search(
            value,
            slope,
            np.zeros(1),
            np.ones(1),
            gfk=np.array([slope0 * start]),
            old_fval=value0,
            c1=SUFFICIENT_DECREASE,
            c2=CURVATURE,
            maxiter=20,
        )[0]
    if found is None:
        return armijo(lambda theta: curve(theta)[0], value0, slope0, start)
    return float(found) * start
