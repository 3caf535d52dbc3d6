"""What masks cost: 1e6 numbers for ten sites, against the bare time of the ten key streams that any such mask needs."""

import os
import time
from collections.abc import Callable

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

from fedspca.masking.fixed_point import Coding, encode_terms, layout
from fedspca.masking.party import add_masks
from fedspca.masking.secret_sharing import new_seed, public_key

ENTRIES = 1_000_000
SITES = 10
AT_MOST = 3.0
REPEATS = 7


def main() -> None:
    """Print both times and their ratio."""
    values = np.random.default_rng(0).standard_normal(ENTRIES)
    segments = layout({"product": (ENTRIES,)}, {"product": Coding(1, 40)})
    names = [f"site {k}" for k in range(SITES)]
    seeds = {"own": new_seed(), "key": new_seed()}
    public = {name: public_key(new_seed()) for name in names}

    zeros, stream = bytes(8 * ENTRIES), bytearray(8 * ENTRIES)

    def streams() -> None:
        for _ in range(SITES):
            Cipher(ChaCha20(os.urandom(32), bytes(16)), mode=None).encryptor().update_into(zeros, stream)

    def masked() -> None:
        vector = encode_terms({"product": values}, segments, SITES)
        add_masks(vector, segments, names[0], seeds, public, ("study", "run", 1))

    bare, whole = _fastest(streams), _fastest(masked)
    verdict = "met" if whole <= AT_MOST * bare else "NOT MET"
    print(
        f"Masking {ENTRIES} numbers for {SITES} sites: {1e3 * whole:.0f} ms, {whole / bare:.2f} times the {SITES} bare"
    )
    print(f"key streams ({1e3 * bare:.0f} ms); at most {AT_MOST:g} times: {verdict}")


def _fastest(work: Callable[[], None]) -> float:
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)
