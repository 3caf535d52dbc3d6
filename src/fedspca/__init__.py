"""Federated sparse principal component analysis: sparse loadings of data that may not be pooled."""

from importlib import import_module
from typing import TYPE_CHECKING

from fedspca._version import __version__

if TYPE_CHECKING:
    from fedspca.dp.accounting import Budget
    from fedspca.dp.ledger import BudgetSpent, Ledger
    from fedspca.estimators import FASPCA, FSSPCA, ExactSPCA, SparsityPath
    from fedspca.federation import Aggregate, Federation, FederationError, LocalFederation, SchemaMismatch
    from fedspca.federation.private import Privacy, PrivateFederation
    from fedspca.federation.secure import SecureFederation, secure_federation
    from fedspca.model import InvalidModel, SparsePCAModel
    from fedspca.site import InvalidData, InvalidQuery, Policy, Query, Site, SiteError, SiteRefusal
    from fedspca.solvers.exact.state import ExactState
    from fedspca.solvers.rounds import Round, StopFit
    from fedspca.solvers.standardise import ConstantFeatureWarning
    from fedspca.solvers.stopping import StopReason

__all__ = [
    "FASPCA",
    "FSSPCA",
    "Aggregate",
    "Budget",
    "BudgetSpent",
    "ConstantFeatureWarning",
    "ExactSPCA",
    "ExactState",
    "Federation",
    "FederationError",
    "InvalidData",
    "InvalidModel",
    "InvalidQuery",
    "Ledger",
    "LocalFederation",
    "Policy",
    "Privacy",
    "PrivateFederation",
    "Query",
    "Round",
    "SchemaMismatch",
    "SecureFederation",
    "Site",
    "SiteError",
    "SiteRefusal",
    "SparsePCAModel",
    "SparsityPath",
    "StopFit",
    "StopReason",
    "__version__",
    "secure_federation",
]

# Where each name is defined. It is imported when first asked for: the relay of a site starts anew for every message,
# and must not pay for scikit-learn.
_HOMES = {
    "fedspca.dp.accounting": ("Budget",),
    "fedspca.dp.ledger": ("BudgetSpent", "Ledger"),
    "fedspca.estimators": ("FASPCA", "FSSPCA", "ExactSPCA", "SparsityPath"),
    "fedspca.federation": ("Aggregate", "Federation", "FederationError", "LocalFederation", "SchemaMismatch"),
    "fedspca.federation.private": ("Privacy", "PrivateFederation"),
    "fedspca.federation.secure": ("SecureFederation", "secure_federation"),
    "fedspca.model": ("InvalidModel", "SparsePCAModel"),
    "fedspca.site": ("InvalidData", "InvalidQuery", "Policy", "Query", "Site", "SiteError", "SiteRefusal"),
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
