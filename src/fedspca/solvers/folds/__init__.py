"""Analyses from sums by fold, after a fit: subsamples, selection frequencies, cross-validation."""
