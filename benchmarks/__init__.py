"""Speed and communication, always as a ratio to a peer measured in the same run: `make bench`."""
