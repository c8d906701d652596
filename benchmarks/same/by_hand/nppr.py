"""Wang et al. (2025), non-parametric probabilistic robustness: mixtures, up-sampling, relaxed draws."""

import numpy as np
from scipy import special, stats


def chosen(logits: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Eq. 12: the component whose share of [0, 1] holds Φ(z), by a table of cumulated weights."""
    return np.array(
        [
            np.searchsorted(np.cumsum(special.softmax(row)), stats.norm.cdf(draws), side="left")
            for row, draws in zip(logits, z, strict=True)
        ]
    )


def drawn(means: np.ndarray, roots: np.ndarray, numbers: np.ndarray, zeta: np.ndarray) -> np.ndarray:
    """Eq. 13: μ_k + L_k ζ."""
    return np.array(
        [[means[i, k] + roots[i, k] @ zeta[i, s] for s, k in enumerate(row)] for i, row in enumerate(numbers)]
    )


def relaxed(logits: np.ndarray, gumbel: np.ndarray, temperature: float) -> np.ndarray:
    """Eq. 48 and 49: softmax((log π + g) / τ)."""
    return special.softmax((special.log_softmax(logits, -1)[:, None] + gumbel) / temperature, -1)


def blended(weights: np.ndarray, means: np.ndarray, roots: np.ndarray, zeta: np.ndarray) -> np.ndarray:
    """Eq. 50: Σ_k w_k (μ_k + L_k ζ)."""
    return np.einsum("isk,iskd->isd", weights, means[:, None] + np.einsum("ikde,ise->iskd", roots, zeta))


def entropy_ratio(weights: np.ndarray) -> np.ndarray:
    """Eq. 51: H(π) / log K."""
    return np.array([stats.entropy(row) / np.log(len(row)) for row in weights])


def kernel(t: np.ndarray, a: float) -> np.ndarray:
    """Eq. 45: the cubic kernel."""
    t = np.abs(t)
    near, far = (a + 2) * t**3 - (a + 3) * t**2 + 1, a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a
    return np.where(t <= 1, near, np.where(t < 2, far, 0.0))


def upsampled(small: np.ndarray, length: int, a: float = -0.75) -> np.ndarray:
    """Eq. 44: each pixel a weighted sum of its 4 x 4 neighbours; beyond the edge the pixel at the edge counts."""
    side = small.shape[-1]
    matrix = np.zeros((length, side))
    for out in range(length):
        place = (out + 0.5) * side / length - 0.5
        for neighbour in range(int(np.floor(place)) - 1, int(np.floor(place)) + 3):
            matrix[out, np.clip(neighbour, 0, side - 1)] += kernel(np.array(place - neighbour), a)
    return matrix @ small @ matrix.T


def softplus_margin(logits: np.ndarray, labels: np.ndarray, kappa: float) -> float:
    """Eq. 11: softplus(z_y - max_{j≠y} z_j + κ), the mean over draws and images."""
    rows = []
    for draw in logits:
        for z, y in zip(draw, labels, strict=True):
            rows.append(np.log1p(np.exp(z[y] - np.delete(z, y).max() + kappa)))
    return float(np.mean(rows))


def robustness(failed: np.ndarray) -> np.ndarray:
    """Definition 2: the share of draws that do not fail, for each image."""
    return 1 - failed.mean(1)
