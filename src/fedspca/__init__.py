"""Federated sparse principal component analysis: sparse loadings of data that may not be pooled."""

from fedspca._version import __version__
from fedspca.estimators import FASPCA, FSSPCA
from fedspca.federation import Aggregate, Federation, FederationError, LocalFederation, SchemaMismatch
from fedspca.site import InvalidData, InvalidQuery, Policy, Query, Site, SiteRefusal
from fedspca.solvers.rounds import Round, StopFit
from fedspca.solvers.standardise import ConstantFeatureWarning
from fedspca.solvers.stopping import StopReason

__all__ = [
    "FASPCA",
    "FSSPCA",
    "Aggregate",
    "ConstantFeatureWarning",
    "Federation",
    "FederationError",
    "InvalidData",
    "InvalidQuery",
    "LocalFederation",
    "Policy",
    "Query",
    "Round",
    "SchemaMismatch",
    "Site",
    "SiteRefusal",
    "StopFit",
    "StopReason",
    "__version__",
]
