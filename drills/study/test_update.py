"""Sites add rows to their files, and the model of the masked study is updated: by the commands that people type."""

import numpy as np
import pandas as pd

from fedspca import ExactSPCA
from fedspca.model import SparsePCAModel
from institutions import NAMES

GROWN = ("east", "north", "south")


def write(study, tables):
    for name, rows in tables.items():
        pd.DataFrame(rows, columns=NAMES).to_csv(study.home / f"{name}.csv", index=False)
        study.kill(name, node=False)
    for name in tables:
        study.back(name)


def test_rows_that_three_sites_add_are_in_the_next_model(masked):
    masked.change(search="products")
    masked.run("study", "run", "trial", "--wait", "60")
    before = SparsePCAModel.load(masked.folder.model)
    rng = np.random.default_rng(9)
    more = {
        name: np.vstack([masked.data[name], masked.data[name][:12] + rng.normal(0, 0.1, (12, 6))]) for name in GROWN
    }
    write(masked, more)
    try:
        assert "would be of north alone" in masked.run("study", "run", "trial", "--update", "north", code=2)
        run = masked.start("study", "run", "trial", "--update", ",".join(GROWN), "--wait", "120")
        masked.wait(lambda: masked.folder.update() is not None)
        masked.approve()
        said = run.communicate(timeout=400)[0]
        assert run.returncode == 0, said
        model = SparsePCAModel.load(masked.folder.model)
        rows = np.vstack([more.get(name, masked.data[name]) for name in masked.sites])
        here = ExactSPCA(2, n_nonzero=3, scale=True, search="products").fit(rows)
        assert np.allclose(model.components, here.components_, atol=1e-8)
        assert len(model.facts["history"]) < len(before.facts["history"])
        assert masked.run("verify", "trial/bundle")  # exit code 0: all holds
    finally:
        (masked.folder.path / "update.json").unlink(missing_ok=True)
        write(masked, {name: masked.data[name] for name in GROWN})
