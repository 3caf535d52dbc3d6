"""Federated sparse principal component analysis: sparse loadings of data that may not be pooled."""

from fedspca._version import __version__
from fedspca.estimators import FASPCA, FSSPCA, ExactSPCA, SparsityPath
from fedspca.federation import Aggregate, Federation, FederationError, LocalFederation, SchemaMismatch
from fedspca.model import InvalidModel, SparsePCAModel
from fedspca.site import InvalidData, InvalidQuery, Policy, Query, Site, SiteRefusal
from fedspca.solvers.exact.state import ExactState
from fedspca.solvers.rounds import Round, StopFit
from fedspca.solvers.standardise import ConstantFeatureWarning
from fedspca.solvers.stopping import StopReason

__all__ = [
    "FASPCA",
    "FSSPCA",
    "Aggregate",
    "ConstantFeatureWarning",
    "ExactSPCA",
    "ExactState",
    "Federation",
    "FederationError",
    "InvalidData",
    "InvalidModel",
    "InvalidQuery",
    "LocalFederation",
    "Policy",
    "Query",
    "Round",
    "SchemaMismatch",
    "Site",
    "SiteRefusal",
    "SparsePCAModel",
    "SparsityPath",
    "StopFit",
    "StopReason",
    "__version__",
]
