"""The mathematics: numpy and scipy only; no files, no logging, no randomness that was not handed in."""
