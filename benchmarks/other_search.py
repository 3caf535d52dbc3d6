"""Searches that share no code with the product, to compare it with: random starts, all at once, then every swap."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_NOTHING = -1e300  # what a support gains that has no column to offer


def best_single(s: Array, k: int) -> float:
    """Return the best of power steps from every feature, the best eight of them followed by every swap that gains."""
    supports = np.unique(_top(np.abs(s), k), axis=0)
    for _ in range(15):
        x = np.linalg.eigh(_blocks(s, supports))[1][:, :, -1]
        supports, before = np.unique(_top(np.abs(_scattered(len(s), supports, x) @ s), k), axis=0), supports
        if np.array_equal(supports, before):
            break
    values = np.linalg.eigvalsh(_blocks(s, supports))[:, -1]
    x = np.linalg.eigh(_blocks(s, supports))[1][:, :, -1]
    starts = _scattered(len(s), supports, x)[np.argsort(-values)[:8]]
    return max(_swapped(s, w[:, None], k, orthogonal=True) for w in starts)


def best_several(s: Array, r: int, k: int, *, orthogonal: bool, starts: int = 500, sweeps: int = 8) -> float:
    """Return the best of random starts: columns updated in turn, by a power step each; the best four then by swaps."""
    rng, d = np.random.default_rng(0), len(s)
    w = np.zeros((starts, d, r))
    for j in range(r):
        beside = _orthonormal(w[:, :, :j])
        supports = _top(rng.random((starts, d)), k)
        gains, x = _refitted(s, beside, supports, orthogonal)
        for _ in range(30):
            none = gains <= _NOTHING
            if not none.any():
                break
            supports[none] = _top(rng.random((int(none.sum()), d)), k)
            gains, x = _refitted(s, beside, supports, orthogonal)
        w[:, :, j] = _scattered(d, supports, x)
    for _ in range(sweeps):
        for j in range(r):
            w[:, :, j] = _stepped(s, _orthonormal(np.delete(w, j, axis=2)), w[:, :, j], k, orthogonal)
    basis = _orthonormal(w)
    values = np.einsum("mij,mij->m", basis, s @ basis)
    if orthogonal:
        values = np.where(np.abs(w.transpose(0, 2, 1) @ w - np.eye(r)).max(axis=(1, 2)) < 1e-6, values, 0.0)
    _, first = np.unique(np.round(values, 9), return_index=True)  # the last of these are the best
    return max(_swapped(s, w[i].copy(), k, orthogonal=orthogonal) for i in first[-4:])


def best_penalised(s: Array, r: int, lam: float, starts: int = 200, steps: int = 500) -> float:
    """Return the lowest ``-tr(w' S w) + lam ||w||_1``: alternating directions from rotations and from sparse starts."""
    rng, d = np.random.default_rng(0), len(s)
    values, vectors = np.linalg.eigh(s)
    half = starts // 2
    turned = vectors[:, -r:] @ np.linalg.qr(rng.standard_normal((half, r, r)))[0]
    sparse = rng.standard_normal((starts - half, d, r)) * (rng.random((starts - half, d, r)) < 0.2)
    w = np.concatenate([turned, np.linalg.qr(sparse + 1e-6 * rng.standard_normal(sparse.shape))[0]])
    rho, z, u = 2.0 * float(values[-1]), w.copy(), np.zeros_like(w)
    for _ in range(steps):
        w = _polar(2.0 * (s @ w) + rho * (z - u))
        z = np.sign(w + u) * np.maximum(np.abs(w + u) - lam / rho, 0.0)
        u += w - z
    points = [w, np.eye(d)[None][:, :, np.argsort(-s.diagonal())[:r]]]
    if (np.abs(z).sum(axis=1) > 0.0).all():
        points.append(_polar(z))
    return min(float((lam * np.abs(p).sum(axis=(1, 2)) - np.einsum("mij,mij->m", p, s @ p)).min()) for p in points)


def _top(scores: Array, k: int) -> Index:
    return np.sort(np.argpartition(-scores, k - 1, axis=1)[:, :k], axis=1)


def _blocks(s: Array, supports: Index) -> Array:
    return s[supports[:, :, None], supports[:, None, :]]


def _scattered(d: int, supports: Index, x: Array) -> Array:
    w = np.zeros((len(supports), d))
    np.put_along_axis(w, supports, x, 1)
    return w


def _orthonormal(w: Array) -> Array:
    return np.linalg.qr(w)[0] if w.shape[2] else w


def _polar(a: Array) -> Array:
    values, vectors = np.linalg.eigh(a.transpose(0, 2, 1) @ a)
    scale = 1.0 / np.sqrt(np.maximum(values, 1e-14 * values[:, -1:]))
    return np.asarray(a @ ((vectors * scale[:, None, :]) @ vectors.transpose(0, 2, 1)))


def _refitted(s: Array, beside: Array, supports: Index, orthogonal: bool) -> tuple[Array, Array]:
    """What the best column on each support adds to the span beside it, and its weights."""
    blocks, k = _blocks(s, supports), supports.shape[1]
    if not beside.shape[2]:
        values, vectors = np.linalg.eigh(blocks)
        return values[:, -1], vectors[:, :, -1]
    at = np.arange(len(supports))[:, None]
    inside = beside[at, supports]
    if orthogonal:
        left, lift = np.eye(k) - inside @ np.linalg.pinv(inside, rcond=1e-9), float(np.trace(s))
        values, vectors = np.linalg.eigh(left @ (blocks + lift * np.eye(k)) @ left)
        return np.where(values[:, -1] > 0.5 * lift, values[:, -1] - lift, _NOTHING), vectors[:, :, -1]
    image = s @ beside
    cross, form = image[at, supports] @ inside.transpose(0, 2, 1), beside.transpose(0, 2, 1) @ image
    blocks = blocks - cross - cross.transpose(0, 2, 1) + inside @ form @ inside.transpose(0, 2, 1)
    sizes, axes = np.linalg.eigh(np.eye(k) - inside @ inside.transpose(0, 2, 1))
    white = axes * np.where(sizes > 1e-6, 1.0 / np.sqrt(np.maximum(sizes, 1e-6)), 0.0)[:, None, :]
    values, vectors = np.linalg.eigh(white.transpose(0, 2, 1) @ blocks @ white)
    x = np.einsum("mij,mj->mi", white, vectors[:, :, -1])
    x = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-300)
    return np.where((sizes > 1e-6).any(axis=1), values[:, -1], _NOTHING), x


def _stepped(s: Array, beside: Array, x: Array, k: int, orthogonal: bool) -> Array:
    """The best of: each column where it is, after a power step off the span, and half way."""
    y = x - np.einsum("mdq,mq->md", beside, np.einsum("mdq,md->mq", beside, x))
    y = y @ s
    y = y - np.einsum("mdq,mq->md", beside, np.einsum("mdq,md->mq", beside, y))
    half_way = x + y / np.maximum(np.abs(y).max(axis=1, keepdims=True), 1e-300)
    trials = [_top(np.abs(scores), k) for scores in (x, y, half_way)]
    fitted = [_refitted(s, beside, supports, orthogonal) for supports in trials]
    best, at = np.argmax([gains for gains, _ in fitted], axis=0), np.arange(len(x))
    return _scattered(x.shape[1], np.array(trials)[best, at], np.array([weights for _, weights in fitted])[best, at])


def _swapped(s: Array, w: Array, k: int, *, orthogonal: bool) -> float:
    """Ascend by the best swap of one feature in each column in turn, until none gains."""
    d, r = w.shape
    basis = _orthonormal(w[None])[0]
    value, gained = float(np.vdot(basis, s @ basis)), True
    while gained:
        gained = False
        for j in range(r):
            beside = _orthonormal(np.delete(w, j, axis=1)[None])
            base = float(np.vdot(beside[0], s @ beside[0]))
            support = _top(np.abs(w[:, j])[None], k)[0]
            outside = np.setdiff1d(np.arange(d), support)
            trials = np.repeat(support[None], 1 + k * len(outside), axis=0)
            trials[np.arange(1, len(trials)), np.repeat(np.arange(k), len(outside))] = np.tile(outside, k)
            trials.sort(axis=1)
            gains, x = _refitted(s, np.repeat(beside, len(trials), axis=0), trials, orthogonal)
            best = int(np.argmax(gains))
            if base + float(gains[best]) > value * (1.0 + 1e-10):
                w[:, j] = _scattered(d, trials[best][None], x[best][None])[0]
                value, gained = base + float(gains[best]), True
    return value
