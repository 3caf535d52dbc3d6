"""The same rows as files of every format, for tests."""

import gzip
import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import scipy.sparse as sp

NAMES = [f"f{j}" for j in range(8)]


def make_rows(n=90, seed=0):
    rng = np.random.default_rng(seed)
    spikes = rng.standard_normal((n, 2)) * [4.0, 2.5]
    loadings = np.zeros((2, len(NAMES)))
    loadings[0, :3], loadings[1, 3:6] = 0.6, 0.6
    rows = spikes @ loadings + 0.4 * rng.standard_normal((n, len(NAMES)))
    return rows * np.linspace(0.5, 20, len(NAMES)) + np.arange(len(NAMES)) * 3


def frame(rows):
    return pd.DataFrame(rows, columns=NAMES)


def parts_of(table, k):
    """Deal the rows of a table or an array out to k sites, in order."""
    ends = np.linspace(0, len(table), k + 1).astype(int)
    parts = [table[start:stop] for start, stop in pairwise(ends)]
    return [part.reset_index(drop=True) if hasattr(part, "reset_index") else part for part in parts]


def write_h5ad(path, rows, *, sparse=True, owners=None):
    """Write the AnnData layout as its specification gives it."""
    import h5py

    with h5py.File(path, "w") as file:
        if sparse:
            csr = sp.csr_matrix(rows)
            group = file.create_group("X")
            group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", csr.shape
            for part in ("data", "indices", "indptr"):
                group[part] = getattr(csr, part)
        else:
            file["X"] = rows
        for name, index in (("obs", [f"r{i}" for i in range(len(rows))]), ("var", NAMES)):
            group = file.create_group(name)
            group.attrs["_index"] = "_index"
            group["_index"] = np.array(index, dtype=h5py.string_dtype())
        if owners is not None:
            column = file["obs"].create_group("hospital")
            column["categories"] = np.array(sorted(set(owners)), dtype=h5py.string_dtype())
            column["codes"] = np.array([sorted(set(owners)).index(owner) for owner in owners], dtype=np.int8)


def write_old_h5ad(path, rows, owners, *, version):
    """Write an earlier layout of anndata: 0.6 kept obs and var as arrays of records, 0.7 all categories apart."""
    import h5py

    text = h5py.string_dtype()
    levels = sorted(set(owners))
    codes = np.array([levels.index(owner) for owner in owners], dtype=np.int8)
    with h5py.File(path, "w") as file:
        file["X"] = rows
        if version == "0.6":
            records = [(f"r{i}", code) for i, code in enumerate(codes)]
            file["obs"] = np.array(records, dtype=[("index", text), ("hospital", np.int8)])
            file["var"] = np.array([(name,) for name in NAMES], dtype=[("index", text)])
            file["uns/hospital_categories"] = np.array(levels, dtype=text)
            return
        for name, index in (("obs", [f"r{i}" for i in range(len(rows))]), ("var", NAMES)):
            group = file.create_group(name)
            group.attrs["_index"] = "_index"
            group["_index"] = np.array(index, dtype=text)
        file["obs/__categories/hospital"] = np.array(levels, dtype=text)
        file["obs/hospital"] = codes
        file["obs/hospital"].attrs["categories"] = file["obs/__categories/hospital"].ref


def write(path, rows):
    """Write rows in the format that the file's name says."""
    table, kind = frame(rows), path.name.split(".", 1)[1]
    if kind == "csv":
        table.to_csv(path, index=False)
    elif kind == "csv.gz":
        with gzip.open(path, "wt", encoding="utf-8") as file:
            table.to_csv(file, index=False)
    elif kind == "parquet":
        table.to_parquet(path)
    elif kind == "arrow":
        table.to_feather(path, compression="uncompressed")
    elif kind == "npy":
        np.save(path, rows)
    elif kind == "npz":
        sp.save_npz(path, sp.csr_matrix(rows))
    elif kind == "h5ad":
        write_h5ad(path, rows)
    elif kind == "zarr":
        write_zarr(path, rows)
    else:
        raise ValueError(kind)
    return path


def write_zarr(path, rows, **obs):
    """Let AnnData itself write a folder of Zarr; it takes texts as objects only."""
    import anndata

    index = pd.Index([f"r{i}" for i in range(len(rows))], dtype=object)
    table = pd.DataFrame(index=index)
    for name, values in obs.items():
        table[name] = values
    var = pd.DataFrame(index=pd.Index(NAMES, dtype=object))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about layouts that are to come
        anndata.AnnData(sp.csr_matrix(rows), obs=table, var=var).write_zarr(path)


FORMATS = ["csv", "csv.gz", "parquet", "arrow", "npy", "npz", "h5ad", "zarr"]
