"""Which modules are searched for examples: not those that need Flower, where it is not installed."""

from importlib.util import find_spec

FLOWER = ("flower/gateway.py", "flower/grid_channel.py", "study/client_app.py", "study/server_app.py", "study/page")
collect_ignore = [] if find_spec("flwr") else [f"src/fedspca/{name}" for name in FLOWER]
