"""A fitted model on its own: use it, save it, load it, and say what it is; without data or solver."""

from typing import TYPE_CHECKING

from fedspca._lazy import lazy_exports

if TYPE_CHECKING:
    from fedspca.model.folder import InvalidModel
    from fedspca.model.model import SparsePCAModel

__all__ = ["InvalidModel", "SparsePCAModel"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {"fedspca.model.folder": ("InvalidModel",), "fedspca.model.model": ("SparsePCAModel",)},
)
