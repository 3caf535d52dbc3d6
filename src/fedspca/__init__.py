"""Federated sparse principal component analysis: sparse loadings of data that may not be pooled."""

from typing import TYPE_CHECKING

from fedspca._lazy import lazy_exports
from fedspca._version import __version__

if TYPE_CHECKING:
    from fedspca.dp.accounting import Budget
    from fedspca.dp.ledger import BudgetSpent, Ledger
    from fedspca.estimators import FASPCA, FSSPCA, ExactSPCA, Selection, SparsityPath
    from fedspca.federation import Aggregate, Federation, FederationError, LocalFederation, SchemaMismatch
    from fedspca.federation.private import PrivateFederation
    from fedspca.federation.release_plan import Privacy
    from fedspca.federation.secure import SecureFederation, secure_federation
    from fedspca.fit.detector import AnomalyDetector
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
    "AnomalyDetector",
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
    "Selection",
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

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "fedspca.dp.accounting": ("Budget",),
        "fedspca.dp.ledger": ("BudgetSpent", "Ledger"),
        "fedspca.estimators": ("FASPCA", "FSSPCA", "ExactSPCA", "Selection", "SparsityPath"),
        "fedspca.federation": ("Aggregate", "Federation", "FederationError", "LocalFederation", "SchemaMismatch"),
        "fedspca.federation.private": ("PrivateFederation",),
        "fedspca.federation.release_plan": ("Privacy",),
        "fedspca.federation.secure": ("SecureFederation", "secure_federation"),
        "fedspca.fit.detector": ("AnomalyDetector",),
        "fedspca.model": ("InvalidModel", "SparsePCAModel"),
        "fedspca.site": ("InvalidData", "InvalidQuery", "Policy", "Query", "Site", "SiteError", "SiteRefusal"),
        "fedspca.solvers.exact.state": ("ExactState",),
        "fedspca.solvers.rounds": ("Round", "StopFit"),
        "fedspca.solvers.standardise": ("ConstantFeatureWarning",),
        "fedspca.solvers.stopping": ("StopReason",),
    },
)
