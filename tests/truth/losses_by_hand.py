"""The losses of pre-training methods, image by image in NumPy and float64, as their papers write them.

Each takes `outs` and `targets` of the views (None where a view has none) and returns the loss.
"""

from itertools import combinations, permutations

import numpy as np

Views = list[np.ndarray | None]


def unit(z: np.ndarray) -> np.ndarray:
    return z / np.sqrt((z**2).sum(1, keepdims=True))


def cross_entropy(logits: list[float] | np.ndarray, right: int) -> float:
    return float(np.log(np.exp(logits).sum()) - logits[right])


def ordered(outs: Views, targets: Views) -> list[tuple[np.ndarray, np.ndarray]]:
    places = permutations(range(len(outs)), 2)
    return [(outs[i], targets[j]) for i, j in places if outs[i] is not None and targets[j] is not None]


def simclr(outs: Views, temperature: float) -> float:
    def nt_xent(a: np.ndarray, b: np.ndarray) -> float:
        z, n = unit(np.concatenate([a, b])), len(a)
        terms = []
        for i in range(2 * n):
            others = [k for k in range(2 * n) if k != i]
            terms.append(cross_entropy([z[i] @ z[k] / temperature for k in others], others.index((i + n) % (2 * n))))
        return float(np.mean(terms))

    return float(np.mean([nt_xent(a, b) for a, b in combinations(outs, 2)]))


def mutual(outs: Views, temperature: float, keys: Views | None = None) -> float:
    """Return the loss of RoCL's authors: each projection told from all others; `keys` stand still where outs move."""
    z, fixed, n = unit(np.concatenate(outs)), unit(np.concatenate(keys or outs)), len(outs[0])
    total = 0.0
    for i in range(len(z)):
        others = [k for k in range(len(z)) if k != i]
        logits = [z[i] @ fixed[k] / temperature for k in others]
        total += sum(cross_entropy(logits, place) for place, k in enumerate(others) if k % n == i % n)
    return total / len(z)


def rocl(clean: np.ndarray, second: np.ndarray, attacked: np.ndarray, temperature: float, weight: float) -> float:
    return mutual([clean, second, attacked], temperature) + weight * mutual([attacked, second], temperature)


def byol(outs: Views, targets: Views) -> float:
    return float(np.mean([2 - 2 * (unit(p) * unit(z)).sum(1) for p, z in ordered(outs, targets)]))


def simsiam(outs: Views, targets: Views) -> float:
    return float(np.mean([-(unit(p) * unit(z)).sum(1) for p, z in ordered(outs, targets)]))


def moco_v2(outs: Views, targets: Views, queue: np.ndarray, temperature: float) -> float:
    rows = zip(unit(outs[0]), unit(targets[1]), strict=True)
    return float(np.mean([cross_entropy(np.array([q @ k, *(queue @ q)]) / temperature, 0) for q, k in rows]))


def moco_v3(outs: Views, targets: Views, temperature: float) -> float:
    def ctr(q: np.ndarray, k: np.ndarray) -> float:
        logits = unit(q) @ unit(k).T / temperature
        return 2 * temperature * float(np.mean([cross_entropy(row, i) for i, row in enumerate(logits)]))

    return sum(ctr(q, k) for q, k in ordered(outs, targets))


def barlow_twins(outs: Views, redundancy: float) -> float:
    def one(a: np.ndarray, b: np.ndarray) -> float:
        a, b = ((z - z.mean(0)) / np.sqrt(z.var(0) + 1e-5) for z in (a, b))
        total = 0.0
        for i in range(a.shape[1]):
            for j in range(b.shape[1]):
                c = (a[:, i] * b[:, j]).mean()
                total += (1 - c) ** 2 if i == j else redundancy * c**2
        return total

    return float(np.mean([one(a, b) for a, b in combinations(outs, 2)]))


def vicreg(outs: Views, invariance: float, variance: float, covariance: float) -> float:
    def still(z: np.ndarray) -> float:
        return float(np.maximum(0, 1 - np.sqrt(z.var(0, ddof=1) + 1e-4)).mean())

    def redundant(z: np.ndarray) -> float:
        c = np.cov(z.T)
        return sum(c[i, j] ** 2 for i, j in permutations(range(len(c)), 2)) / len(c)

    def one(a: np.ndarray, b: np.ndarray) -> float:
        apart = ((a - b) ** 2).mean()
        return invariance * apart + variance * (still(a) + still(b)) / 2 + covariance * (redundant(a) + redundant(b))

    return float(np.mean([one(a, b) for a, b in combinations(outs, 2)]))


def supcon(outs: Views, labels: np.ndarray, temperature: float) -> float:
    z, y = unit(np.concatenate(outs)), np.tile(labels, len(outs))
    terms = []
    for i in range(len(z)):
        others = [k for k in range(len(z)) if k != i]
        logits = [z[i] @ z[k] / temperature for k in others]
        terms.append(np.mean([cross_entropy(logits, at) for at, k in enumerate(others) if y[k] == y[i]]))
    return float(np.mean(terms))


def tecoa(reps: np.ndarray, directions: np.ndarray, labels: np.ndarray, temperature: float) -> float:
    cosines = unit(reps) @ unit(directions).T
    return float(np.mean([cross_entropy(row / temperature, label) for row, label in zip(cosines, labels, strict=True)]))


def supervised(rep: np.ndarray, logits: np.ndarray, labels: np.ndarray, uniformity: float) -> float:
    z, n = unit(rep), len(rep)
    near = [np.exp(-2 * ((z[i] - z[j]) ** 2).sum()) for i, j in permutations(range(n), 2)]
    right = np.mean([cross_entropy(row, y) for row, y in zip(logits, labels, strict=True)])
    return float(right - uniformity * -np.log(np.mean(near)))


def self_distillation(outs: Views, targets: Views, divergence: str) -> float:
    f, f0 = outs[0], targets[1]
    if divergence == "cosine":
        return float(np.mean(1 - (unit(f) * unit(f0)).sum(1)))
    return float(np.mean([((a - b) ** 2).mean() for a, b in zip(f, f0, strict=True)]))
