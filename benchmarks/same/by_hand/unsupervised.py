"""Petrov & Kwiatkowska (2022): drift, neighbours, overlap and margins by loops; center smoothing; other divergences."""

import math

import numpy as np
from scipy import linalg, special, stats


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """d, the Euclidean distance."""
    return float(np.sqrt(((a - b) ** 2).sum()))


def breakaway(clean: np.ndarray, attacked: np.ndarray) -> float:
    """Eq. 1 over all pairs: how often x̂ is nearer to another image than to its own."""
    pairs = [
        distance(found, other) < distance(found, clean[i])
        for i, found in enumerate(attacked)
        for j, other in enumerate(clean)
        if j != i
    ]
    return float(np.mean(pairs))


def nearest_neighbour(clean: np.ndarray, attacked: np.ndarray) -> float:
    """Eq. 4: how often the nearest clean image of x̂ is its own."""
    return float(np.mean([np.argmin([distance(found, x) for x in clean]) == i for i, found in enumerate(attacked)]))


def universal(clean: np.ndarray, attacked: np.ndarray) -> np.ndarray:
    """Section 5: the share of pairs that are at most as far apart as x̂ and x."""
    pairs = np.array([distance(a, b) for i, a in enumerate(clean) for b in clean[:i]])
    return np.array([np.mean(pairs <= distance(found, own)) for found, own in zip(attacked, clean, strict=False)])


def relative(clean: np.ndarray, attacked: np.ndarray) -> np.ndarray:
    """Section 5: d(f(x̂→t), f(t)) / d(f(x), f(t)) for partners (0, 1), (2, 3) and so on."""
    partner = np.arange(len(attacked)) ^ 1
    return np.array(
        [
            distance(found, clean[t]) / distance(clean[i], clean[t])
            for i, (found, t) in enumerate(zip(attacked, partner, strict=True))
        ]
    )


def margin(clean: np.ndarray, attacked: np.ndarray) -> np.ndarray:
    """Section 5: (d(f(x_i), f(x̂_j→i)) - d(f(x_i), f(x̂_i→j))) / d(f(x_i), f(x_j)); below 0 an overlap (Eq. 2)."""
    rows = []
    for i, found in enumerate(attacked):
        j = i ^ 1
        gap = distance(clean[i], attacked[j]) - distance(clean[i], found)
        rows.append(gap / distance(clean[i], clean[j]))
    return np.array(rows)


def overlap(clean: np.ndarray, attacked: np.ndarray) -> float:
    """Eq. 2."""
    return float(np.mean(margin(clean, attacked) < 0))


def center(samples: np.ndarray, fresh: np.ndarray, sigma: float, radius: float, delta: float, alpha: float) -> float:
    """C.10, Kumar & Goldstein's certificate: three times a quantile of distances to the best of the samples."""
    medians = [np.sort(np.linalg.norm(samples - one, axis=1))[len(samples) // 2] for one in samples]
    best = samples[int(np.argmin(medians))]
    share = stats.norm.cdf(stats.norm.ppf(0.5 + delta) + radius / sigma) + math.sqrt(
        math.log(1 / alpha) / (2 * len(fresh))
    )
    return 3 * float(np.sort(np.linalg.norm(fresh - best, axis=1))[math.ceil(share * len(fresh)) - 1])


def kullback_leibler(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A.1: KL of the softmax of features, that of the reference b first."""
    return np.array([stats.entropy(special.softmax(q), special.softmax(p)) for p, q in zip(a, b, strict=True)])


def wasserstein(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A.1: W₂ of Gaussians (μ, log σ²), by the formula for any covariances."""
    rows = []
    for p, q in zip(a, b, strict=True):
        (m, s), (n, t) = (np.split(one, 2) for one in (p, q))
        first, second = np.diag(np.exp(s)), np.diag(np.exp(t))
        root = linalg.sqrtm(linalg.sqrtm(first) @ second @ linalg.sqrtm(first))
        rows.append(math.sqrt(((m - n) ** 2).sum() + np.trace(first + second - 2 * np.real(root))))
    return np.array(rows)


def lowpass(x: np.ndarray, radius: float) -> np.ndarray:
    """C.4: what is left of square images within a circle around the centre of their transform."""
    side = x.shape[-1]
    rows, columns = np.indices((side, side)) - side // 2
    kept = rows**2 + columns**2 < radius**2
    spectrum = np.fft.fftshift(np.fft.fft2(x), axes=(-2, -1)) * kept
    return np.real(np.fft.ifft2(np.fft.ifftshift(spectrum, axes=(-2, -1)))).clip(0, 1)


def average_radius(radii: np.ndarray, correct: np.ndarray) -> float:
    """C.9: the mean over all images, those that are not found as 0."""
    return float(np.where(correct == 1, radii, 0).mean())
