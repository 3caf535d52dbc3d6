"""The methods that the paper builds on or compares with, fitted to the same sites by the same sums.

Each method is one small file that begins with its citation. Each is an estimator as in scikit-learn, with
``fit(X, sites=…)`` and ``fit_federation``. ``docs/literature.md`` compares them.
"""

from typing import TYPE_CHECKING

from fedspca._lazy import lazy_exports

if TYPE_CHECKING:
    from fedspca.literature.dspca import DSPCA
    from fedspca.literature.fantope import FantopePS
    from fedspca.literature.ge import PrivateTruncatedPower
    from fedspca.literature.gpower import GPower
    from fedspca.literature.grammenos import MergedPCA
    from fedspca.literature.hajinezhad_hong import NonconvexADMM
    from fedspca.literature.oversampling import OversamplingPCA
    from fedspca.literature.past import PAST
    from fedspca.literature.scotlass import SCoTLASS
    from fedspca.literature.tan import StabilizedADMM
    from fedspca.literature.truncated_power import TruncatedPower
    from fedspca.literature.zou import ElasticNetSPCA

__all__ = [
    "DSPCA",
    "PAST",
    "ElasticNetSPCA",
    "FantopePS",
    "GPower",
    "MergedPCA",
    "NonconvexADMM",
    "OversamplingPCA",
    "PrivateTruncatedPower",
    "SCoTLASS",
    "StabilizedADMM",
    "TruncatedPower",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "fedspca.literature.dspca": ("DSPCA",),
        "fedspca.literature.fantope": ("FantopePS",),
        "fedspca.literature.ge": ("PrivateTruncatedPower",),
        "fedspca.literature.gpower": ("GPower",),
        "fedspca.literature.grammenos": ("MergedPCA",),
        "fedspca.literature.hajinezhad_hong": ("NonconvexADMM",),
        "fedspca.literature.oversampling": ("OversamplingPCA",),
        "fedspca.literature.past": ("PAST",),
        "fedspca.literature.scotlass": ("SCoTLASS",),
        "fedspca.literature.tan": ("StabilizedADMM",),
        "fedspca.literature.truncated_power": ("TruncatedPower",),
        "fedspca.literature.zou": ("ElasticNetSPCA",),
    },
)
