"""What the tests of the experiments share."""

from pathlib import Path

import numpy as np

OWNERS = np.repeat(["a", "b", "c"], 20)


DOCS = Path(__file__).parents[2] / "docs"
