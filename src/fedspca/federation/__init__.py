"""One primitive: the sum of the sites' terms."""

from fedspca.federation.base import Aggregate, Federation, FederationError, SchemaMismatch
from fedspca.federation.local import LocalFederation

__all__ = ["Aggregate", "Federation", "FederationError", "LocalFederation", "SchemaMismatch"]
