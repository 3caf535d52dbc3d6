"""Federated sparse principal component analysis: sparse loadings of data that may not be pooled."""

from importlib import import_module
from typing import TYPE_CHECKING

from fedspca._version import __version__

if TYPE_CHECKING:
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

# Where each name is defined. It is imported when first asked for: the relay of a site starts anew for every message,
# and must not pay for scikit-learn.
_HOMES = {
    "fedspca.estimators": ("FASPCA", "FSSPCA", "ExactSPCA", "SparsityPath"),
    "fedspca.federation": ("Aggregate", "Federation", "FederationError", "LocalFederation", "SchemaMismatch"),
    "fedspca.model": ("InvalidModel", "SparsePCAModel"),
    "fedspca.site": ("InvalidData", "InvalidQuery", "Policy", "Query", "Site", "SiteRefusal"),
    "fedspca.solvers.exact.state": ("ExactState",),
    "fedspca.solvers.rounds": ("Round", "StopFit"),
    "fedspca.solvers.standardise": ("ConstantFeatureWarning",),
    "fedspca.solvers.stopping": ("StopReason",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value  # so that this function is asked once for each name
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
