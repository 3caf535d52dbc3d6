import numpy as np
import pytest

from fedspca.literature.penalties import LOG_E, MCP_B, PENALTIES, SCAD_A


def scad(z, t):
    middle = (2 * SCAD_A * t * z - z**2 - t**2) / (2 * (SCAD_A - 1))
    return np.where(z <= t, t * z, np.where(z <= SCAD_A * t, middle, t**2 * (SCAD_A + 1) / 2))


def mcp(z, t):
    return np.where(z <= MCP_B * t, t * z - z**2 / (2 * MCP_B), MCP_B * t**2 / 2)


VALUES = {"l1": lambda z, t: t * z, "scad": scad, "mcp": mcp, "log": lambda z, t: t * LOG_E * np.log1p(z / LOG_E)}


@pytest.mark.parametrize("name", sorted(PENALTIES))
@pytest.mark.parametrize("t", [0.1, 0.4])
def test_each_map_is_the_least_point_of_a_fine_grid(name, t):
    grid = np.linspace(0, 3, 30001)
    for x in (0.0, 0.05, 0.3, 0.45, 0.9, 1.3, 2.5):
        brute = grid[np.argmin(0.5 * (grid - x) ** 2 + VALUES[name](grid, t))]
        found = PENALTIES[name](np.array([x, -x]), t)
        assert np.allclose(found, [brute, -brute], atol=2e-4)
