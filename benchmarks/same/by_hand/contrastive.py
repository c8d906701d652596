"""Zhong et al. (2022): drops, gamma, shuffles, fluctuation, uniformity, feature distance, kNN."""

import math

import numpy as np


def drop(original: float, changed: float) -> float:
    """Eq. 1: Δ."""
    return (original - changed) / original


def gamma(levels: np.ndarray, power: float) -> np.ndarray:
    """Section 2.2: ⌊255 (x / 255)^γ⌋ of levels 0 to 255."""
    return np.array([math.floor(255 * (level / 255) ** power + 1e-9) for level in levels])


def global_shuffle(x: np.ndarray, grid: int, order: np.ndarray) -> np.ndarray:
    """Section 2.2: the patches of a grid, each as it is, in another order."""
    rows, columns = x.shape[-2] // grid, x.shape[-1] // grid
    patches = [
        x[..., r * rows : (r + 1) * rows, c * columns : (c + 1) * columns] for r in range(grid) for c in range(grid)
    ]
    shuffled = [patches[place] for place in order]
    return np.concatenate([np.concatenate(shuffled[r * grid : (r + 1) * grid], -1) for r in range(grid)], -2)


def local_shuffle(x: np.ndarray, grid: int, order: np.ndarray) -> np.ndarray:
    """Section 2.2: the pixels of every patch in another order, the same in all."""
    rows, columns = x.shape[-2] // grid, x.shape[-1] // grid
    out = x.copy()
    for r in range(0, x.shape[-2], rows):
        for c in range(0, x.shape[-1], columns):
            patch = x[..., r : r + rows, c : c + columns]
            pixels = patch.reshape(*patch.shape[:-2], -1)[..., order]
            out[..., r : r + rows, c : c + columns] = pixels.reshape(patch.shape)
    return out


def fluctuation(correct: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Section 4: TV_i of each class from its accuracies, epoch by epoch."""
    accuracy = np.array([[epoch[labels == c].mean() for c in np.unique(labels)] for epoch in correct])
    return np.abs(np.diff(accuracy, axis=0)).mean(0)


def uniformity(reps: np.ndarray) -> float:
    """Section 4: U = -log E exp(-2 ||z - z'||²) over pairs of different images, z of unit length."""
    z = reps / np.linalg.norm(reps, axis=1, keepdims=True)
    pairs = [np.exp(-2 * ((z[i] - z[j]) ** 2).sum()) for i in range(len(z)) for j in range(i)]
    return -math.log(np.mean(pairs))


def feature_distance(reps: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, float]:
    """Section 4: E ||f(x) - f(x')||² within each class (different images), and the mean over pairs of classes."""
    parts = [reps[labels == c] for c in np.unique(labels)]
    within = [np.mean([((a - b) ** 2).sum() for i, a in enumerate(p) for b in p[:i]]) for p in parts]
    across = [
        np.mean([((a - b) ** 2).sum() for a in p for b in q])
        for n, p in enumerate(parts)
        for m, q in enumerate(parts)
        if n != m
    ]
    return np.array(within), float(np.mean(across))


def votes(reps: np.ndarray, bank: np.ndarray, labels: np.ndarray, k: int, temperature: float) -> np.ndarray:
    """Section 2.1, Wu et al. (2018): each class's sum of exp(cos / T) over the k nearest, as a share of all."""
    unit = lambda a: a / np.linalg.norm(a, axis=1, keepdims=True)  # noqa: E731
    rows = []
    for likeness in unit(reps) @ unit(bank).T:
        near = np.argsort(-likeness)[:k]
        weights = np.exp(likeness[near] / temperature)
        rows.append([weights[labels[near] == c].sum() / weights.sum() for c in np.unique(labels)])
    return np.array(rows)


def regularised(reps: np.ndarray, logits: np.ndarray, labels: np.ndarray, weight: float) -> float:
    """A.2: cross-entropy less λ U of the batch."""
    rows = logits - logits.max(1, keepdims=True)
    likelihood = rows[np.arange(len(rows)), labels] - np.log(np.exp(rows).sum(1))
    return float(-likelihood.mean() - weight * uniformity(reps))
