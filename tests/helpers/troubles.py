"""What may go wrong with one site of a plain federation."""

import numpy as np

from contracts.federation import make_sites
from fedspca import FASPCA, FSSPCA, ExactSPCA
from fedspca.federation.plain import PlainFederation
from fedspca.letters.identity import Identity, split_letter
from fedspca.letters.wire import Message, decode, encode
from helpers.letters import KEYS, Troubled, conversation_with

SIZES = (20, 11, 30)


SOLVERS = [ExactSPCA(2, lam=5.0), ExactSPCA(2, n_nonzero=2), FASPCA(2, lam=3.0), FSSPCA(2, lam2=3.0)]


def forged(message, site, key=None):
    return (key or dict(zip(["clinic-0", "clinic-1", "clinic-2"], KEYS, strict=False))[site]).sign(encode(message))


def changed(fields=None, arrays=None, kind=None, key=None):
    """What a site would send if it were broken, or somebody in its place."""

    def trouble(count, site, letter, reply):
        if site != "clinic-1" or count < 3:
            return reply
        told = decode(split_letter(reply)[1])
        put = dict(told.arrays) if arrays is None else arrays(dict(told.arrays))
        return forged(Message(kind or told.kind, {**told.fields, **(fields or {})}, put), site, key)

    return trouble


TROUBLES = {
    "killed": lambda count, site, letter, reply: None if site == "clinic-1" and count >= 3 else reply,
    "altered": lambda count, site, letter, reply: reply[:-1] + b"\x07" if site == "clinic-1" and count >= 3 else reply,
    "noise": lambda count, site, letter, reply: b"noise" if site == "clinic-1" and count >= 3 else reply,
    "another's key": changed(key=Identity.new()),
    "another site": changed(fields={"sender": "clinic-2"}),
    "another run": changed(fields={"run": "0" * 32}),
    "another study": changed(fields={"study": "0" * 64}),
    "another round": changed(fields={"round": 2}),
    "another kind": changed(kind="hello"),
    "another shape": changed(arrays=lambda arrays: {name: array[:-1] for name, array in arrays.items()}),
    "another name": changed(arrays=lambda arrays: {f"my {name}": array for name, array in arrays.items()}),
    "another type": changed(arrays=lambda arrays: {name: array.astype(np.int64) for name, array in arrays.items()}),
    "nothing": changed(arrays=lambda arrays: {}),
    "NaN": changed(arrays=lambda arrays: {name: array * np.nan for name, array in arrays.items()}),
    "infinity": changed(arrays=lambda arrays: {name: np.full_like(array, np.inf) for name, array in arrays.items()}),
    "absurd": changed(arrays=lambda arrays: {name: 1e6 * array for name, array in arrays.items()}),
}


def troubled(trouble, sizes=SIZES, **terms):
    sites = make_sites(sizes)
    conversation = conversation_with(sites, channel=lambda ends: Troubled(ends, trouble), **terms)
    told = []
    return PlainFederation(conversation, notice=told.append), told
