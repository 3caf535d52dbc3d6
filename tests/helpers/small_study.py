"""The command that fits the two files of the ``study`` fixture."""

FIT = ("fit", "north.csv", "south.parquet", "--nonzero", "3", "--no-path")
