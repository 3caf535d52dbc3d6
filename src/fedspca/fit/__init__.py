"""What ``fedspca fit`` does: the settings, the sites that files make, the fit, and the facts that a report shows."""

from typing import TYPE_CHECKING

from fedspca._lazy import lazy_exports

if TYPE_CHECKING:
    from fedspca.fit.inputs import Inputs, open_inputs
    from fedspca.fit.run import fit_covariance_file, fit_files
    from fedspca.fit.settings import FitSettings
    from fedspca.fit.settings_file import read_fit_settings

__all__ = ["FitSettings", "Inputs", "fit_covariance_file", "fit_files", "open_inputs", "read_fit_settings"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "fedspca.fit.inputs": ("Inputs", "open_inputs"),
        "fedspca.fit.run": ("fit_covariance_file", "fit_files"),
        "fedspca.fit.settings": ("FitSettings",),
        "fedspca.fit.settings_file": ("read_fit_settings",),
    },
)
