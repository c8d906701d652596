"""Ko et al. (2022), "SynBench": robust Bayes classifiers by a general solver, their accuracy and bounds, the score."""

import numpy as np
from scipy import integrate, optimize, stats


def shift(half: np.ndarray, values: np.ndarray, budget: float, norm: float = 2) -> np.ndarray:
    """z_Λ(μ̃): the point of the ball that is nearest to μ̃ in the metric Λ⁻¹, by sequential quadratic programming."""
    if budget == 0:
        return np.zeros_like(half)
    value = lambda z: (((half - z) ** 2) / values).sum()  # noqa: E731
    slope = lambda z: -2 * (half - z) / values  # noqa: E731
    if np.isinf(norm):
        inside = [(-budget, budget)] * len(half)
        return optimize.minimize(
            value, 0.5 * half, jac=slope, method="SLSQP", bounds=inside, options={"ftol": 1e-15, "maxiter": 1000}
        ).x
    room = {"type": "ineq", "fun": lambda z: budget**norm - (np.abs(z) ** norm).sum(),
            "jac": lambda z: -norm * np.sign(z) * np.abs(z) ** (norm - 1)}  # fmt: skip
    start = half * 0.5 * budget / np.linalg.norm(half, norm)
    return optimize.minimize(
        value, start, jac=slope, method="SLSQP", constraints=room, options={"ftol": 1e-15, "maxiter": 1000}
    ).x


def weights(half: np.ndarray, values: np.ndarray, budget: float, norm: float = 2) -> np.ndarray:
    """The weights Λ⁻¹(μ̃ - z_Λ(μ̃))."""
    return (half - shift(half, values, budget, norm)) / values


def accuracy(half: np.ndarray, values: np.ndarray, budget: float, norm: float = 2) -> float:
    """Results 2.2 and C.1."""
    w = weights(half, values, budget, norm)
    return float(stats.norm.cdf(half @ w / np.sqrt(w @ (values * w))))


def isotropic_margin(x: np.ndarray, mu: np.ndarray, budget: float, share: float) -> np.ndarray:
    """Result 2.1 for any share of the classes."""
    q, size = np.log((1 - share) / share), np.linalg.norm(mu)
    shrunk = 1 - budget / size
    return np.abs(q / 2 - x @ mu * shrunk) / (shrunk * size)


def expected_bound(accuracy: float) -> float:
    """Result 2.3, not by its formula but by integrating over the projections that are right: E[t / m | t > 0]."""
    mean = stats.norm.ppf(accuracy)
    inside = lambda t: t / mean * stats.norm.pdf(t - mean)  # noqa: E731
    return integrate.quad(inside, 0, mean + 40, epsabs=1e-13, limit=200)[0] / accuracy


def fitted(
    first: np.ndarray, signs: np.ndarray, cutoff: float = 1e-6
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Section 2.2.2: centre, F, Λ and μ̃ of representations, directions of hardly any variance left out."""
    means = [first[signs == y].mean(0) for y in (1, -1)]
    deviations = first - np.where(signs[:, None] > 0, *means)
    values, vectors = np.linalg.eigh(deviations.T @ deviations / (len(first) - 2))
    vectors, values = vectors[:, values > cutoff], values[values > cutoff]
    return (means[0] + means[1]) / 2, vectors, values, vectors.T @ (means[0] - means[1]) / 2


def tested(first: np.ndarray, signs: np.ndarray, second: np.ndarray, budget: float) -> tuple[float, float]:
    """Result 2.4: accuracy on other representations, and the mean scaled bound of those that are right."""
    centre, vectors, values, half = fitted(first.astype(float), signs)
    w = weights(half, values, budget * float(np.linalg.norm(half)))
    scaled = signs * ((second - centre) @ vectors @ w) / (half @ w)
    return float((scaled > 0).mean()), float(scaled[scaled > 0].mean())


def curve(accuracy: np.ndarray, bound: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Eq. 2: the mean over s of the bound where the accuracy is above the threshold."""
    return np.array([np.where(accuracy > a, bound, 0).mean() for a in thresholds])


def score(accuracy: np.ndarray, bound: np.ndarray, best: np.ndarray, ideal: np.ndarray, start: float) -> float:
    """Eq. 3, its integrals as sums over 100 thresholds from .6 to 1."""
    at = np.linspace(0.6, 1, 100)
    at = at[at >= start]
    return curve(accuracy, bound, at).sum() / curve(best, ideal, at).sum()
