"""The coordinator's side: solvers written against ``federation.sum`` and nothing else."""
