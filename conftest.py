"""Which modules are searched for examples: not those that need Flower, where it is not installed."""

from importlib.util import find_spec

FLOWER = ("flower/gateway", "flower/grid_channel", "study/client_app", "study/server_app")
collect_ignore = [] if find_spec("flwr") else [f"src/fedspca/{name}.py" for name in FLOWER]
