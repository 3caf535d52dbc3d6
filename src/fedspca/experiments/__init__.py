"""The paper's data."""
