"""ExactSPCA, FASPCA and FSSPCA as scikit-learn estimators."""

from fedspca.estimators.exact import ExactSPCA
from fedspca.estimators.faspca import FASPCA
from fedspca.estimators.fsspca import FSSPCA
from fedspca.estimators.selection import Selection
from fedspca.estimators.sparsity_path import PathModel, SparsityPath

__all__ = ["FASPCA", "FSSPCA", "ExactSPCA", "PathModel", "Selection", "SparsityPath"]
