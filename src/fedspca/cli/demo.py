"""``fedspca demo``."""

from fedspca import demo as demonstration


def demo() -> None:
    """Run a federated sparse PCA of embedded data over ten sites and print what it found."""
    demonstration.main()
