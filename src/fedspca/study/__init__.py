"""A study from files to a model: every setting, the sites that the files make, the fit, and what is told about it."""

from fedspca.study.inputs import Inputs, open_inputs
from fedspca.study.run import fit_study
from fedspca.study.settings import Study, read_study

__all__ = ["Inputs", "Study", "fit_study", "open_inputs", "read_study"]
