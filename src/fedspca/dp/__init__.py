"""Differential privacy: noise on integers, what each release costs, and the ledger that each site keeps."""
