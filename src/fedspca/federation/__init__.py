"""One primitive: the sum of the sites' terms."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedspca.federation.base import Aggregate, Federation, FederationError, SchemaMismatch
    from fedspca.federation.local import LocalFederation

__all__ = ["Aggregate", "Federation", "FederationError", "LocalFederation", "SchemaMismatch"]


def __getattr__(name: str) -> object:
    # on demand, as in the package above: the relay lives below this package and needs none of it
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "fedspca.federation.local" if name == "LocalFederation" else "fedspca.federation.base"
    return getattr(import_module(home), name)
