"""The coordinator's side: solvers that use the sites only through ``federation.sum``."""
