"""Flower beneath a study: how letters travel, and the processes and certificates that carry them."""
