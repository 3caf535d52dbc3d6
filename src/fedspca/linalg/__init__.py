"""The mathematics: numpy and scipy only. No files, no logging; the caller supplies every random number."""
