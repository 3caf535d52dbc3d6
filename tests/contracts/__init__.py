"""Suites that every implementation must pass: one for federations, one for solvers. Inherit and say how to make one."""
