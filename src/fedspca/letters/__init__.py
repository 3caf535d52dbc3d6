"""Signed letters: their bytes, the keys that sign them, and the log of what was sent."""
