"""Single cells: sparse PCA of an AnnData object, with its results where scanpy's users look for them.

``fedspca.sc.spca(adata, 10, n_nonzero=30)`` fills ``adata.obsm["X_spca"]`` (scores), ``adata.varm["SPCs"]`` (loadings)
and ``adata.uns["spca"]`` (variance captured, settings), as ``scanpy.pp.pca`` does for dense components.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedspca.estimators import ExactSPCA
from fedspca.site.errors import InvalidData


def spca(
    adata: Any,
    n_components: int = 10,
    *,
    n_nonzero: int | None = 30,
    layer: str | None = None,
    mask_var: Any = None,
    site_key: str | None = None,
    key_added: str = "spca",
    scale: bool = False,
    copy: bool = False,
    transform: Sequence[str] = (),
    variable: int | None = None,
    **settings: Any,
) -> Any:
    """Sparse principal components of the cells of an AnnData object.

    Parameters
    ----------
    adata : AnnData
        Cells in rows and genes in columns, normalised and on a log scale as for ``scanpy.pp.pca``; or raw counts, with
        ``transform``.
    n_components : int, default=10
        How many components.
    n_nonzero : int, optional
        How many genes each component may use. None leaves it to ``lam`` or ``variance_kept``, given by name.
    layer : str, optional
        The layer to analyse; by default ``adata.X``.
    mask_var : str or array of bool, optional
        The genes to use: a column of ``adata.var`` or a mask. By default ``highly_variable``, where there is one.
    site_key : str, optional
        A column of ``adata.obs`` that names the owner of each cell; a federation of them is then simulated.
    key_added : str, default="spca"
        The name of the results: ``obsm["X_" + key]``, ``varm["SPCs"]`` (or ``varm[key]``) and ``uns[key]``.
    scale : bool, default=False
        Divide genes by their standard deviation.
    copy : bool, default=False
        Return a copy with the results instead of writing into ``adata``.
    transform : sequence of str, default=()
        What is done to the values first: ``("library", "log1p")`` or ``("pearson",)`` for raw counts.
    variable : int, optional
        Keep this many genes: those of the largest variance after the transforms, over all sites.
    **settings
        Further settings of :class:`~fedspca.ExactSPCA`.

    Returns
    -------
    adata : AnnData or None
        The copy, if one was asked for.
    """
    if not is_anndata(adata):
        raise TypeError(f"Expected an AnnData object. Got {type(adata).__name__} instead.")
    adata = adata.copy() if copy else adata
    mask = _mask(adata, mask_var)
    rows = (adata.X if layer is None else adata.layers[layer])[:, mask]
    if n_nonzero is not None and "lam" not in settings:
        settings["n_nonzero"] = min(n_nonzero, int(mask.sum()))
    fitted = ExactSPCA(n_components, scale=scale, **settings)
    owners = None if site_key is None else np.asarray(_column(adata.obs, site_key, "obs"))
    fitted.fit(rows, sites=owners, transform=transform, variable=variable)
    loadings = np.zeros((adata.n_vars, n_components))
    loadings[mask] = fitted.components_.T
    adata.obsm[f"X_{key_added}"] = fitted.transform(rows)
    adata.varm["SPCs" if key_added == "spca" else key_added] = loadings
    shares = np.diff(fitted.captured_variance_ratio_, prepend=0.0)
    adata.uns[key_added] = {
        "params": {"n_nonzero": settings.get("n_nonzero") or 0, "scale": scale, "layer": layer or "X"},
        "variance": shares * fitted.total_variance_,
        "variance_ratio": shares,
    }
    return adata if copy else None


def is_anndata(rows: Any) -> bool:
    """Whether this is an AnnData object, or something with the same parts; anndata itself is not imported."""
    return all(hasattr(rows, name) for name in ("X", "obs", "var", "obsm", "varm", "uns"))


def _mask(adata: Any, mask_var: Any) -> NDArray[np.bool_]:
    if mask_var is None:
        mask_var = "highly_variable" if "highly_variable" in adata.var else np.ones(adata.n_vars, dtype=bool)
    mask = np.asarray(_column(adata.var, mask_var, "var") if isinstance(mask_var, str) else mask_var, dtype=bool)
    if mask.shape != (adata.n_vars,) or not mask.any():
        raise InvalidData(f"mask_var must say of each of the {adata.n_vars} genes whether it is used, and use some.")
    return mask


def _column(table: Any, name: str, where: str) -> Any:
    if name not in table:
        raise InvalidData(
            f"adata.{where} has no column {name!r}; it has {', '.join(map(str, table.columns)) or 'none'}."
        )
    return table[name]
