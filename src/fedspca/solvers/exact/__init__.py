"""ExactSPCA: the pooled optimum in about ten rounds."""
