"""The share of values above each threshold, with a band that holds at all thresholds at once."""

import scipy
from jaxtyping import Float
from torch import Tensor

from holdfast.numerics.statistics.looks import level


def survival(
    values: Float[Tensor, "rows"], at: Float[Tensor, "places"], confidence: float = 0.95
) -> tuple[Float[Tensor, "places"], Float[Tensor, "places"], Float[Tensor, "places"]]:
    """Return S(t) = share of values above t, and a band that holds the true S at every t with this confidence.

    The band is S ± d, cut to [0, 1], where d is the quantile of Kolmogorov's statistic sup_t |S(t) - true S(t)| for n
    independent values. It is exact for continuous distributions, and wider than needed where values repeat.

    Args:
        values: independent ones; infinite ones lie above every threshold.
        at: thresholds.
        confidence: of the whole band.

    Returns:
        S, the lower and the upper end of the band, in float64.

    Source: Kolmogorov (1933); Massart (1990) for the bound that holds for every distribution.

    Example:
        >>> share, low, high = survival(torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([2.5]))
        >>> share.tolist(), low.tolist(), round(high.item(), 3)
        ([0.5], [0.0], 1.0)
    """
    # [places, rows], averaged over rows
    share = (values.double()[None] > at.double()[:, None]).double().mean(1)
    width = float(scipy.stats.kstwo.ppf(level(confidence), len(values)))
    return share, (share - width).clamp_min(0), (share + width).clamp_max(1)
