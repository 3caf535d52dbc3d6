"""FSSPCA and FASPCA in scikit-learn's shape."""

from fedspca.estimators.consensus import FASPCA, FSSPCA

__all__ = ["FASPCA", "FSSPCA"]
