"""The length of a perturbation whose direction is uniform: the inverse of its distribution, tabulated once."""

from functools import lru_cache

import numpy as np
import scipy
import torch
from torch import Tensor

LOG_DENSITIES = {
    "gaussian": lambda r, scale: -(r**2) / (2 * scale**2),
    "laplace": lambda r, scale: -r / scale,
}
"""log g(r) / d, where the density of a perturbation is g of its length."""

FINE, COARSE = 100_001, 4_097
"""Points at which a density is summed, and at which its inverse is kept."""
LEFT_OUT = 80.0
"""Lengths whose density is below e^-80 of the largest are left out."""
FARTHEST = 8.0
"""Numbers beyond which the ends of the table are returned; one in 10^15 is."""


def to_truncated_length(z: Tensor, name: str, pixels: int, scale: float) -> Tensor:
    """Return F⁻¹(Φ(z)) for lengths r in [0, 1] with the density r^(d-1) g(r), within 1e-5.

    Args:
        z: standard normal numbers, of any shape.
        name: of g; "gaussian", exp(-d r² / 2 scale²), or "laplace", exp(-d r / scale).
        pixels: d.
        scale: about where lengths of many pixels gather, where nothing is truncated.
    """
    table = _table(name, pixels, scale).to(z)
    # Where z stands between the points of the table; only the fraction, and not the
    # choice of points, has a gradient
    place = ((z + FARTHEST) * ((COARSE - 1) / (2 * FARTHEST))).clamp(0, COARSE - 1)
    # One below the last point, so that there is a right neighbour
    left = place.detach().long().clamp_max(COARSE - 2)
    return torch.lerp(table[left], table[left + 1], place - left)


@lru_cache(maxsize=64)
def _table(name: str, pixels: int, scale: float) -> Tensor:
    """Return F⁻¹(Φ(z)) at equally spaced numbers from -8 to 8."""

    def log_density(r: np.ndarray) -> np.ndarray:
        return scipy.special.xlogy(pixels - 1, r) + pixels * LOG_DENSITIES[name](r, scale)

    # Lengths of many pixels gather in a thin shell: first where that is,
    # then as many points there alone
    r = np.linspace(0, 1, FINE)
    occurs = np.flatnonzero(log_density(r) > log_density(r).max() - LEFT_OUT)
    r = np.linspace(r[max(occurs[0] - 1, 0)], r[min(occurs[-1] + 1, FINE - 1)], FINE)
    # Relative to the largest, as r^(d-1) itself overflows or vanishes for a photograph's d
    density = np.exp(log_density(r) - log_density(r).max())
    # Trapezoids, up to a factor that the division by the sum takes out
    mass = density[1:] + density[:-1]
    below = np.concatenate([[0.0], mass.cumsum()])
    above = np.concatenate([mass[::-1].cumsum()[::-1], [0.0]])  # summed from its own end: tails keep their digits
    z = np.where(below < above, scipy.special.ndtri(below / below[-1]), -scipy.special.ndtri(above / above[0]))
    z[0], z[-1] = min(-FARTHEST, z[1]), max(FARTHEST, z[-2])  # the ends themselves, which are infinitely far
    return torch.from_numpy(np.interp(np.linspace(-FARTHEST, FARTHEST, COARSE), z, r))
