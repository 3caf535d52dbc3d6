"""What sums by fold tell beyond the fit: subsamples, how often features are selected, cross-validation."""
