"""A fit from files to a model: every setting, the sites that the files make, the fit, and what is told about it."""

from fedspca.fit.inputs import Inputs, open_inputs
from fedspca.fit.run import fit_covariance_file, fit_files
from fedspca.fit.settings import FitSettings, read_fit_settings

__all__ = ["FitSettings", "Inputs", "fit_covariance_file", "fit_files", "open_inputs", "read_fit_settings"]
