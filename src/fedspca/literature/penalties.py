"""Proximal maps of non-convex penalties: argmin over z of ½(z − x)² + t·h(z), entry by entry.

References: Fan and Li (2001) for SCAD; Zhang (2010) for MCP; Candès, Wakin and Boyd (2008) for the logarithm.
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.shrinkage import soft_threshold

Array = NDArray[np.float64]

SCAD_A = 3.7  # as Fan and Li recommend
MCP_B = 2.5
LOG_E = 0.05  # ε of the logarithmic penalty: the smaller, the sharper its corner at zero


def scad(x: Array, t: float) -> Array:
    """SCAD: a soft threshold up to |x| = 2t, no shrinkage above |x| = at, linear in between."""
    size = np.abs(x)
    middle = ((SCAD_A - 1) * x - np.sign(x) * SCAD_A * t) / (SCAD_A - 2)
    return np.where(size <= 2 * t, soft_threshold(x, t), np.where(size <= SCAD_A * t, middle, x))


def mcp(x: Array, t: float) -> Array:
    """MCP: the shrinkage decreases with |x|, and is zero above |x| = bt."""
    return np.where(np.abs(x) <= MCP_B * t, soft_threshold(x, t) / (1 - 1 / MCP_B), x)


def log(x: Array, t: float) -> Array:
    """The logarithm, t·ε log(1 + |z|/ε): z = 0, or the larger root of (|z| − |x|)(|z| + ε) + tε = 0 if it is better."""
    size, e = np.abs(x), LOG_E + 0.0 * x
    inside = (size + e) ** 2 - 4 * t * e
    root = (size - e + np.sqrt(np.maximum(inside, 0.0))) / 2
    there = 0.5 * (root - size) ** 2 + t * e * np.log1p(np.maximum(root, 0.0) / e)
    return np.where((inside > 0) & (root > 0) & (there < 0.5 * size**2), np.sign(x) * root, 0.0)


PENALTIES: Mapping[str, Callable[[Array, float], Array]] = {
    "l1": soft_threshold,
    "scad": scad,
    "mcp": mcp,
    "log": log,
}
