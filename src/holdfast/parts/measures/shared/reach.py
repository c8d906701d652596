"""How far certificates reach: the share of images that are certified within each radius, as a chart."""

import numpy as np
import scipy
import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core.chart import Curves, Line, numbers

POINTS = 60
"""Radii at which the share is drawn."""


def chart_certificates(right: Float[Tensor, "images"], radius: Float[Tensor, "images"]) -> Curves:
    """Return #{right and radius >= r} / n against r, with exact (Clopper-Pearson) 95 % intervals at each r by itself.

    Args:
        right: 1 where the certified answer is the right one; a wrong one holds within no radius.
        radius: certified, in pixels.
    """
    # count the images that hold at each radius, up to a little beyond the largest one
    certified = np.where(right.cpu().numpy() == 1, radius.double().cpu().numpy(), -1.0)
    n, most = len(certified), float(certified.max(initial=0.0))
    radii = np.linspace(0, 1.02 * most, POINTS if most else 1)
    hits = (certified[:, None] >= radii).sum(0)
    # quantiles of the beta distribution enclose the share; no hit, or all of them, leave one side without an end
    low = np.where(hits > 0, scipy.stats.beta.ppf(0.025, np.maximum(hits, 1), n - hits + 1), 0.0)
    high = np.where(hits < n, scipy.stats.beta.ppf(0.975, hits + 1, np.maximum(n - hits, 1)), 1.0)
    share, low, high = (numbers(torch.from_numpy(values)) for values in (hits / n, low, high))
    average = np.maximum(certified, 0).mean()
    return Curves(
        heading="How far certificates reach",
        short="certificates",
        how_to_read=(
            "The share of images whose right answer is certified within a radius, against the radius in pixels (ℓ2 "
            "for smoothing). The area below a curve is the average certified radius over all images, those that are "
            "wrong or abstain counting as 0. Bands are exact 95 % intervals at each radius by itself."
        ),
        lines=(Line(tuple(radii.tolist()), share, low, high),),
        across="radius in pixels",
        label="certified",
        unit="share",
        summary=f"{100 * np.mean(certified >= 0):.3g} % certified at 0, average radius {average:.3g}",
    )
