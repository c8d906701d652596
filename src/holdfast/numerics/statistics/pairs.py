"""The mean of an event over ordered pairs of images, in which every image has two roles."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.numerics.statistics.looks import level
from holdfast.numerics.statistics.means import degrees_of_freedom
from holdfast.numerics.statistics.proportions import clopper_pearson, effective_trials
from holdfast.numerics.statistics.score import Score


def pair_mean(rows: Float[Tensor, "images"], columns: Float[Tensor, "images"], confidence: float = 0.95) -> Score:
    """Mean over ordered pairs (i, j) of a 0/1 event, with an interval that knows that pairs share images.

    The variance is that of a bootstrap over images which resamples every image in both of its roles. To first order
    (Hájek) θ is a sum of influences I_i = [i attacked] (rows_i - θ)/M + (columns_i - θ)/N, so that the bootstrap needs
    no drawing: v = Σ_i (I_i - Ī)², attacked and other images apart. v gives the number of independent pairs that
    the sample is worth, n_eff = θ(1-θ) / v · (z / t)², t with the degrees of freedom that v has, at most M - 1 (see
    `mean`), and n_eff at most all M(N-1) of them; the interval is the binomial
    one of that size, because percentiles of a bootstrap end too low where the event is rare. Where no pair shows the
    event (or all do) there is nothing to resample; the exact limit then is 1 - (α/2)^(1/M), since a mean μ of values
    in [0, 1] leaves M draws all at zero with probability at most (1-μ)^M.

    Args:
        rows: share of the event over j for image i; NaN for images that were not attacked, [N].
        columns: share of the event over i for image j, [N].
        confidence: level of the interval.

    Example:
        >>> rows, columns = torch.tensor([0.5, 0.0, 0.0]), torch.tensor([0.0, 0.0, 0.5])
        >>> score = pair_mean(rows, columns)
        >>> print(f"{score.value:.3f} in [{score.low:.3f}, {score.high:.3f}]")
        0.167 in [0.000, 0.953]
    """
    attacked = ~rows.isnan()
    m, value = int(attacked.sum()), float(rows[attacked].double().mean()) if attacked.any() else math.nan
    kind = "binomial with effective size from the bootstrap variance over images, each in both of its roles"
    tail = (1 - level(confidence)) / 2
    if m == 0:
        return Score(None, None, None, 0, kind, confidence, "no image was attacked")
    if value in (0.0, 1.0):
        limit = 1 - tail ** (1 / m)
        low, high = (0.0, limit) if value == 0 else (1 - limit, 1.0)
        return Score(value, low, high, m, "exact limit for a sample without exception", confidence)

    # the bootstrap's variance from the influences, attacked and other images apart
    influence = influence_of_pair_mean(rows, columns)
    strata = [part - part.mean() for part in (influence[attacked], influence[~attacked]) if len(part)]
    variance = sum(float(part.square().sum()) for part in strata)

    # the binomial interval of as many independent pairs as that variance is worth
    pairs = float(m * (len(rows) - 1)) if m > 1 else 0.0  # one image tells nothing
    freedom = max(min(m - 1.0, degrees_of_freedom(torch.cat(strata))), 1.0)
    size = effective_trials(value, variance, freedom, pairs, confidence)
    low, high = clopper_pearson(value * size, size, confidence)
    carriers = int((rows[attacked] > 0).sum())
    contributing = f"{m} images" if carriers == m else f"{carriers} of {m} images contribute"
    short = f"the upper limit may be too low, so the interval may cover less than {100 * confidence:g} %"
    note = f"only {contributing}: {short}" if carriers < 10 else ""
    return Score(value, low, high, m, kind, confidence, note)


def influence_of_pair_mean(rows: Float[Tensor, "images"], columns: Float[Tensor, "images"]) -> Float[Tensor, "images"]:
    """Influence of each image on the mean over pairs, in both of its roles; see `pair_mean`.

    Example:
        >>> influence_of_pair_mean(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 0.0])).tolist()
        [0.0, -0.5]
    """
    attacked = ~rows.isnan()
    value = rows[attacked].double().mean()
    influence = (columns.double() - value) / len(columns)
    influence[attacked] += (rows[attacked].double() - value) / attacked.sum()
    return influence
