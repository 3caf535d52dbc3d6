"""The same rows in every kind of storage that a site may have."""

import numpy as np
import scipy.sparse as sp

KINDS = {
    "float64": lambda x: x,
    "fortran": np.asfortranarray,
    "float32": lambda x: x.astype(np.float32),
    "csr": lambda x: sp.csr_array(np.where(np.abs(x) > 1, x, 0)),
    "csr float32": lambda x: sp.csr_matrix(np.where(np.abs(x) > 1, x, 0).astype(np.float32)),
}
