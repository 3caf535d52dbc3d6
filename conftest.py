"""Which modules are searched for examples: not those that need Flower, where it is not installed."""

from importlib.util import find_spec

FLOWER = ("client", "channel", "gateway", "server")
collect_ignore = [] if find_spec("flwr") else [f"src/fedspca/federation/flower/{name}.py" for name in FLOWER]
