"""A study between institutions: the coordinator's folder, each owner's folder, and the apps that Flower runs."""
