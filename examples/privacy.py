"""Differential privacy: one noised release, after which every fit is free. Needs fedspca[privacy]."""

import numpy as np

from fedspca import Budget, ExactSPCA, Ledger, LocalFederation, Privacy, PrivateFederation, Site

rng = np.random.default_rng(0)
factor = rng.standard_normal((20_000, 1))
rows = 0.6 * rng.standard_normal((20_000, 12))
rows[:, :4] += 0.8 * factor  # one component over the first four features

sites = [Site(f"site {number}", part) for number, part in enumerate(np.array_split(rows, 2))]
for site in sites:
    site.ledger = Ledger(Budget(epsilon=1.0, delta=1e-6))  # what its owner allows in all

# Centre and scale are stated from public knowledge, never computed from these rows.
promise = Privacy(epsilon=1.0, delta=1e-6, centre=0.0, scale=1.0, expected_rows=20_000)
federation = PrivateFederation(LocalFederation(sites), promise, notice=print)

model = ExactSPCA(1, n_nonzero=4).fit_federation(federation)
print("Features found:", np.flatnonzero(model.components_[0]).tolist())
print(f"Spent: epsilon = {federation.spent()['epsilon']:.3f} of {promise.epsilon}.")
