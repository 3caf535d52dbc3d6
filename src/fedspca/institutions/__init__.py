"""The same study between institutions: a folder for the coordinator, a folder for each owner, and what passes between."""
